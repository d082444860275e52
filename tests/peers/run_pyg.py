"""run_pyg: PyG's own tests of its loaders, with ours in the place of PyG's.

    python tests/peers/run_pyg.py FOLDER [--table]

FOLDER is a checkout of PyG (or what `git archive TAG test` makes); nothing of it is in this
repository. The tests are imported with PyG's `NeighborLoader`, `LinkNeighborLoader`, `HGTLoader`
and `NeighborSampler` replaced and with PyG's marks of pyg-lib and torch-sparse lifted, since ours
need neither; not a line of them is changed. Where torch-sparse is not installed, tests look edges
up in a stand-in for its SparseTensor. A test passes, or is refused (the error that ended it is one
of ours: its sentence is in the table), or fails; "no data" is one whose dataset could not be
downloaded. Tests whose code names none of the four are counted and not run. Nothing else here knows
one test from another. The exit code is 1 if one fails.
"""

import argparse
import inspect
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FILES = (
    "test/loader/test_neighbor_loader.py",
    "test/loader/test_link_neighbor_loader.py",
    "test/loader/test_hgt_loader.py",
    "test/sampler/test_sampler_neighbor_sampler.py",
    "test/sampler/test_sampler_base.py",
    "test/loader/test_mixin.py",
    "test/loader/test_zip_loader.py",
    "test/loader/test_cache.py",
    "test/loader/test_imbalanced_sampler.py",
    "test/loader/test_prefetch.py",
    "test/nn/models/test_basic_gnn.py",
)
_LIFTED: tuple[str, ...] = ("WITH_PYG_LIB", "WITH_TORCH_SPARSE", "WITH_WEIGHTED_NEIGHBOR_SAMPLE")
_LIFTED += ("WITH_EDGE_TIME_NEIGHBOR_SAMPLE",)
_PACKAGES = {"pyg_lib", "torch_sparse"}
_NAMES = ("NeighborLoader", "LinkNeighborLoader", "HGTLoader", "NeighborSampler")


class Swap:
    """A plugin of pytest: swaps the import, lifts the marks, and notes how tests end."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.made = self.left_out = 0
        self._before: list[tuple[Any, str, Any]] = []

    def pytest_collection(self) -> None:
        """Before test modules are imported."""
        import torch_geometric.loader
        import torch_geometric.sampler.neighbor_sampler
        import torch_geometric.testing
        import torch_geometric.typing

        from foregather.interop import pyg

        testing, typing = torch_geometric.testing, torch_geometric.typing
        needs = testing.withPackage
        for name in ("NeighborLoader", "LinkNeighborLoader", "HGTLoader"):
            self._swap(torch_geometric.loader, name, self._counted(getattr(pyg, name)))
        home = torch_geometric.sampler.neighbor_sampler
        self._swap(home, "NeighborSampler", self._counted(pyg.NeighborSampler))
        if not typing.WITH_TORCH_SPARSE:
            self._swap(typing, "SparseTensor", Adjacency)
        testing.onlyNeighborSampler = lambda test: test
        testing.withPackage = lambda *names: needs(*(set(names) - _PACKAGES))
        for name in _LIFTED:
            self._swap(typing, name, True)

    def _swap(self, module: Any, name: str, value: Any) -> None:
        self._before.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    def _counted(self, ours: Any) -> Any:
        """A class like ours, which counts what a test makes."""
        swap = self

        def make(cls: Any, *given: Any, **named: Any) -> Any:
            swap.made += 1
            return ours(*given, **named)

        return type(ours)(ours.__name__, (ours,), {"__new__": make})

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leaves out what has nothing to do with the loaders."""
        named = [item for item in items if _names_one(inspect.getsource(item.function))]
        self.left_out = len(items) - len(named)
        items[:] = named

    def pytest_collection_finish(self) -> None:
        """PyG itself goes on knowing what is installed; the imported tests do not."""
        for module, name, value in reversed(self._before):
            setattr(module, name, value)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        """Notes the end of a test, and whether it made a loader."""
        if call.when == "setup":
            self.made = 0
        outcome = yield
        report = outcome.get_result()
        if call.when != "call" and not (call.when == "setup" and report.outcome != "passed"):
            return
        how, why = report.outcome, ""
        if hasattr(report, "wasxfail"):
            how, why = "xfail", f"marked by PyG: {report.wasxfail}"
        elif how == "skipped":
            why = str(report.longrepr[-1])
        elif how == "failed":
            how, why = _ended(call.excinfo.value)
        if how == "passed" and not self.made:
            how = "unused"
        self.rows.append((item.nodeid, how, why))


class Adjacency:
    """What tests use of torch-sparse's SparseTensor: a part of a matrix, with its numbers."""

    def __init__(self, row: Any, col: Any, value: Any) -> None:
        self._found = (row, col, value)

    def __getitem__(self, asked: Any) -> "Adjacency":
        """The rows and columns that are asked for, in their order."""
        import torch

        rows, columns = asked
        row, col, value = self._found
        # the numbers of rows and columns are distinct in every use
        at = (row.view(-1, 1) == rows.view(1, -1)).nonzero()
        to = (col.view(-1, 1) == columns.view(1, -1)).nonzero()
        place, other = (torch.full_like(row, -1) for _ in range(2))
        place[at[:, 0]], other[to[:, 0]] = at[:, 1], to[:, 1]
        inside = (place >= 0) & (other >= 0)
        return Adjacency(place[inside], other[inside], value[inside])

    def nnz(self) -> int:
        """How many numbers there are."""
        return int(self._found[0].numel())

    def coo(self) -> Any:
        """Rows, columns and numbers."""
        return self._found

    @property
    def storage(self) -> "Adjacency":
        """Itself: where the three are."""
        return self

    def row(self) -> Any:
        """The rows."""
        return self._found[0]

    def col(self) -> Any:
        """The columns."""
        return self._found[1]

    def value(self) -> Any:
        """The numbers."""
        return self._found[2]


def _names_one(source: str) -> bool:
    return any(re.search(rf"\b{name}\(", source) for name in _NAMES)


def _ended(error: BaseException | None) -> tuple[str, str]:
    """Refused, where an error of ours is in the chain."""
    from foregather.errors import ForegatherError

    last = error
    while error is not None:
        if isinstance(error, ForegatherError):
            return "refused", str(error)
        if type(error).__module__.split(".")[0] in ("aiohttp", "urllib", "requests", "socket"):
            return "no data", "its dataset could not be downloaded"
        error = error.__cause__ or error.__context__
    return "failed", f"{type(last).__name__}: {str(last).splitlines()[:1]}"


def main() -> int:
    """Runs the files and prints what came of each test."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", action="store_true", help="Markdown, one row a test function")
    parser.add_argument("-k", default="", help="as of pytest")
    asked = parser.parse_args()
    files = [str(asked.folder / name) for name in FILES]
    swap = Swap()
    with tempfile.NamedTemporaryFile(suffix=".ini") as config:  # neither PyG's settings nor ours
        config.write(b"[pytest]\nmarkers = dataset\n")
        config.flush()
        quiet = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-c", config.name]
        where = [f"--rootdir={asked.folder}", "-k", asked.k]
        pytest.main([*quiet, *where, *files], plugins=[swap])
    (_print_table if asked.table else _print_rows)(swap.rows)
    counts = Counter(how for _, how, _ in swap.rows)
    print(", ".join(f"{how} {count}" for how, count in sorted(counts.items())))
    print(f"{swap.left_out} tests name none of {', '.join(_NAMES)} and were not run")
    return int(counts["failed"] > 0)


def _print_rows(rows: list[tuple[str, str, str]]) -> None:
    for name, how, why in rows:
        print(f"{how:<9} {name.split('/')[-1]}  {why}")


def _print_table(rows: list[tuple[str, str, str]]) -> None:
    """Tests of one function that ended alike are one row."""
    alike: Counter[tuple[str, str, str]] = Counter()
    for name, how, why in rows:
        file, _, test = name.split("/")[-1].partition("::")
        alike[f"`{file}` `{test.partition('[')[0]}`", how, why] += 1
    print("| test | runs | outcome |\n|---|---|---|")
    for (name, how, why), count in alike.items():
        print(f"| {name} | {count} | {how}{': ' if why else ''}{why} |")


if __name__ == "__main__":
    sys.exit(main())
