"""The source distribution: what a build needs, and nothing that a build made."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_sdist_is_clean(tmp_path):
    pytest.importorskip("scikit_build_core")
    program = (
        "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True)
    (made,) = tmp_path.glob("foregather-*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    made_by_builds = {n for n in names if n.endswith((".o", ".a", ".so", ".pyc", ".gch"))}
    assert not made_by_builds
    assert {name.split("/")[0] for name in names} == {
        "CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "CONTRIBUTING.md", "LICENSE", "PKG-INFO",
        "README.md", "SECURITY.md", "csrc", "pyproject.toml", "src",
    }  # fmt: skip
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.cpp")}
    assert sources and sources <= names
