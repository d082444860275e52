"""README outside the repository: links and pictures below an address, and nothing else changed."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.some import some

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "packaging" / "absolute_links.py"
PAGES, PICTURES = "https://example.org/blob/v1", "https://example.org/raw/v1"


def absolute(text):
    spec = importlib.util.spec_from_file_location("absolute_links", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.absolute(text, PAGES + "/", PICTURES)


def test_links_pictures_and_what_stays():
    given = (
        "[a](docs/a.md#part) and ![p](./docs/p.svg), [b](https://b.org/x) and [c](#part)\n"
        "[![badge](docs/b.svg)](LICENSE) `[code](docs/a.md)` [mail](mailto:a@b.org)\n"
        "```bash\n[x](docs/a.md)\n```\n"
    )
    assert absolute(given) == (
        f"[a]({PAGES}/docs/a.md#part) and ![p]({PICTURES}/docs/p.svg), [b](https://b.org/x) and "
        f"[c](#part)\n[![badge]({PICTURES}/docs/b.svg)]({PAGES}/LICENSE) `[code](docs/a.md)` "
        "[mail](mailto:a@b.org)\n```bash\n[x](docs/a.md)\n```\n"
    )
    assert absolute(absolute(given)) == absolute(given)


def test_no_relative_link_is_left_in_readme(tmp_path):
    copy = shutil.copy(ROOT / "README.md", tmp_path)
    command = [sys.executable, str(SCRIPT), PAGES, copy, "--pictures", PICTURES]
    subprocess.run(command, check=True)
    before = (ROOT / "README.md").read_text(encoding="utf-8")
    made = Path(copy).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]*)\)", made)
    for target in some(targets):
        assert target.startswith(("https://", "#")), target
        if target.startswith(PAGES):
            assert (ROOT / target.removeprefix(PAGES + "/").partition("#")[0]).exists()
    assert made.replace(PAGES + "/", "").replace(PICTURES + "/", "") == before
    command[2] = "docs"
    assert subprocess.run(command, capture_output=True).returncode == 2
