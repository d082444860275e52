"""Files that are cut, damaged or unreadable under an opened graph: one sentence with their name."""

import gc
import os
import re
import signal

import numpy as np
import pytest

from foregather import FormatError, Graph, StorageError
from foregather.graph import mapped
from foregather.graph.load import as_mapped, load, load_bytes
from foregather.graph.mapped import fetch, hold, is_mapped, take
from foregather.graph.on_disk.files import room_for
from foregather.graph.on_disk.npy import map_array
from foregather.graph.synthetic import synthesize
from foregather.sampling import Neighbor
from tests.graph.cut import run_cases
from tests.graph.unreadable import fail_reads


@pytest.fixture
def folder(tmp_path):
    synthesize(tmp_path / "g", 20_000, degree=6, features=16, classes=5, seed=3)
    return tmp_path / "g"


# ---- maps that are only looked at: the last word -------------------------------------------------

LOOK = "print(int(array[-1].max()), flush=True)"
LAST_WORD = {
    **{
        f"{name} is named": (f"{name}.npy", f"array = {array}; cut(); {LOOK}")
        for name, array in {
            "features": "graph.features.data",
            "indices": "graph.indices",
            "labels": "graph.labels",
        }.items()
    },
    "faulthandler before": (
        "labels.npy",
        f"later\nfaulthandler.enable()\narray = Graph.open(folder).labels; cut(); {LOOK}",
    ),
    "faulthandler after": (
        "labels.npy",
        f"array = graph.labels; faulthandler.enable(); cut(); {LOOK}",
    ),
    "another thread": (
        "labels.npy",
        "cut(); t = threading.Thread(target=lambda: graph.labels[-1]); t.start(); t.join()",
    ),
    "a child of a child": (
        "labels.npy",
        "cut()\nif os.fork() == 0: graph.labels[-1]\n"
        "sys.exit(-os.waitstatus_to_exitcode(os.wait()[1]))",
    ),
    "another map": (
        "labels.npy",
        """
with open(folder / "other", "w+b") as file:
    file.truncate(8192)
    other = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
other[0]
""",
    ),
    "sent": ("labels.npy", "os.kill(os.getpid(), signal.SIGBUS)"),
    "removed": (
        "labels.npy",
        """
def caught():
    mask = re.search(r"SigCgt:\\s+(\\w+)", Path("/proc/self/status").read_text())[1]
    return bool(int(mask, 16) >> 6 & 1)
before = caught()
del graph
gc.collect()
print(before, caught())
""",
    ),
}


@pytest.mark.slow
def test_a_page_of_a_map_that_cannot_be_read_is_named(folder):
    found = run_cases(folder, LAST_WORD)
    for case, (code, out, err) in found.items():
        said = re.findall(r"foregather: reading (\w+).npy failed", err)
        if case == "removed":  # with the last map the handler goes too
            assert (code, out, err) == (0, "True False\n", "")
            continue
        assert code == (signal.SIGBUS if case == "a child of a child" else -signal.SIGBUS), case
        assert out == "", case  # no number was made up
        if case in ("another map", "sent"):
            assert err == "", case
            continue
        if "faulthandler" in case:  # what was there before, or came later, is heard as well
            assert "Fatal Python error: Bus error" in err, case
        else:
            assert err.strip().count("\n") == 0, case
        if case != "faulthandler after":  # which sends the signal on without its address
            assert said == [LAST_WORD[case][0].removesuffix(".npy")], case


# ---- reading -------------------------------------------------------------------------------------


def test_fetch_reads_what_the_map_shows(folder, monkeypatch):
    monkeypatch.setattr(mapped, "_PART", 1000)  # several parts, which cut blocks
    graph = Graph.open(folder)
    for array in (graph.indptr, graph.indices, graph.features.data, graph.labels):
        assert is_mapped(array) and is_mapped(array[5:])
        for view in (array, array[3:777], array[-1:], array[5:5], array[::3]):
            copy = fetch(view)
            assert not is_mapped(copy) and copy.dtype == view.dtype
            np.testing.assert_array_equal(copy, view)
    own = np.arange(5)
    assert fetch(own) is own and hold(own) is own


def test_room_for_an_array_lies_in_its_page_as_the_file_does():
    """Where the kernel copies fast; views hold the array, as they hold one of NumPy's own."""
    for shape, dtype, position, order in [
        ((3000, 25), "<f4", 4096, "C"),
        ((3000, 25), "<f8", 4096 + 8 * 25 * 77, "F"),
        ((70_001,), ">i4", 80, "C"),
        ((200_000,), "u1", 5 * 4096 + 4095, "C"),
    ]:
        made = room_for(shape, np.dtype(dtype), position, order)
        begin = made.__array_interface__["data"][0]
        assert (position - begin) % 4096 < 64 and begin % 64 == 0
        assert made.shape == shape and made.dtype == dtype and made.flags.writeable
        assert made.flags.f_contiguous if order == "F" else made.flags.c_contiguous
        made[...] = 1
        assert made[5:].base is made
    small = room_for((3, 2), np.dtype("f4"), 4096)
    assert small.shape == (3, 2) and small.base is None


def test_take_reads_rows_in_any_order(folder):
    graph = Graph.open(folder)
    rng = np.random.default_rng(0)
    orders = [np.arange(40, 90), rng.integers(0, 20_000, 500), np.array([7]), np.empty(0, np.int64)]
    for ids in orders:
        for array in (graph.features.data, graph.labels):
            np.testing.assert_array_equal(take(array, ids), array[ids])


def test_fetch_knows_foreign_files(tmp_path):
    values = np.asfortranarray(np.arange(60, dtype=">f8").reshape(12, 5))
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(fetch(map_array(tmp_path / "a.npy")), values)


def test_an_array_is_read_once_for_all_who_hold_it(folder):
    graph = Graph.open(folder)
    first, second = load(graph), load(graph)
    assert first is second and load(first) is first
    assert load(graph, ["features"]).features.data is first.features.data
    assert load_bytes(first) == 0 and load_bytes(graph) > 0
    assert not first.features.data.flags.writeable
    assert first.digest == graph.digest and first.path == graph.path
    kept = mapped.owner_of(graph.features.data)
    del first, second
    gc.collect()
    assert len(kept._held) == 0  # given back


def test_the_file_that_was_opened_is_read(folder, tmp_path):
    graph = Graph.open(folder)
    expected = np.array(graph.features.data)
    synthesize(tmp_path / "other", 20_000, degree=6, features=16, classes=5, seed=4)
    os.replace(tmp_path / "other" / "features.npy", folder / "features.npy")
    np.testing.assert_array_equal(load(graph).features.data, expected)


def test_a_file_that_was_cut_is_an_error(folder):
    graph = Graph.open(folder)
    os.truncate(folder / "features.npy", 4096 + 2 * 4096)
    assert len(graph.features[:100]) == 100
    for read in (
        lambda: graph.features[[3, 19_999]],
        lambda: graph.features[50:],
        lambda: load(graph),
    ):
        with pytest.raises(StorageError, match="features.npy"):
            read()


@pytest.mark.parametrize("name", ["indptr", "indices", "features", "labels"])
def test_a_flipped_bit_is_found_when_an_array_is_loaded(folder, name):
    path = folder / f"{name}.npy"
    data = bytearray(path.read_bytes())
    data[4096 + 2 * 4096 + 5] ^= 4
    path.write_bytes(data)
    graph = Graph.open(folder)
    with pytest.raises(FormatError, match=rf"{name}\.npy.* block 2"):
        load(graph)
    assert len(graph.features[:16]) == 16  # other blocks are as they were


def test_an_input_output_error_is_an_error(folder, monkeypatch):
    graph = Graph.open(folder)
    with monkeypatch.context() as patch:
        fail_reads(patch, "indptr.npy")
        with pytest.raises(
            StorageError, match="reading indptr.npy at byte 4096 failed: Input/output error"
        ):
            load(graph, ["topology"])
    np.testing.assert_array_equal(load(graph, ["topology"]).indptr, graph.indptr)


def test_an_interrupt_is_heard_between_parts(folder, monkeypatch):
    """A part is short; what was read until then is given back, and the next load is whole."""
    graph = Graph.open(folder)
    owner = mapped.owner_of(graph.features.data)
    read, parts = owner.read_part, []

    def interrupted(position, into):
        read(position, into)
        parts.append(position)
        if len(parts) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(mapped, "_PART", 100_000)
    monkeypatch.setattr(owner, "read_part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(graph, ["features"])
    assert len(parts) == 2 and len(owner._held) == 0
    np.testing.assert_array_equal(load(graph, ["features"]).features.data, graph.features.data)
    assert len(parts) == 2 + -(-graph.features.data.nbytes // 100_000)


def test_a_sampler_walks_in_memory_or_where_it_is_told(folder):
    graph = Graph.open(folder)
    seeds = [np.arange(50)]
    expected = Neighbor([5, 3]).sample_bulk(as_mapped(graph), seeds, seed=1)
    sampler = Neighbor([5, 3])
    found = sampler.sample_bulk(graph, seeds, seed=1)
    os.truncate(folder / "indices.npy", 4096)
    again = sampler.sample_bulk(graph, seeds, seed=1)  # what was read stays
    for bulk in (found, again):
        np.testing.assert_array_equal(bulk[0].node, expected[0].node)
        np.testing.assert_array_equal(bulk[0].edge, expected[0].edge)
    with pytest.raises((StorageError, FormatError), match="indices"):
        Neighbor([5, 3]).sample_bulk(Graph.open(folder), seeds, seed=1)


# ---- every command and sampler -------------------------------------------------------------------

SAMPLERS = {
    "neighbor": "Neighbor([4, 3])",
    "labor": "Labor([4, 3])",
    "full": "Full(1)",
    "ladies": "Ladies([64])",
    "walk": "RandomWalk(3)",
    "saint": "Saint('node', 100)",
}
COMMANDS = {
    "verify": ("'verify', str(folder)", ["features", "indices"]),
    "info": ("'info', str(folder)", ["indices", "labels"]),
    "convert": ("'convert', str(folder), f'{folder}-out'", ["features", "indices", "indptr"]),
    "partition": ("'partition', str(folder), f'{folder}-out', '--parts', '2'", ["features"]),
}
CUT_WHEN_OPENED = """later
opened = opening.open_graph
def open_and_cut(path, make):
    made = opened(path, make)
    cut()
    return made
opening.open_graph = verifying.open_graph = open_and_cut
sys.exit(command([{}]))
"""


@pytest.mark.slow
def test_samplers_and_commands_on_files_that_were_cut(folder):
    cases = {
        f"{kind} {name}": (f"{name}.npy", f"cut(); {make}.sample_bulk(graph, [ids], seed=0)")
        for kind, make in SAMPLERS.items()
        for name in ("indptr", "indices")
    }
    cases = {case: (name, "ids = np.arange(100); " + code) for case, (name, code) in cases.items()}
    for command, (arguments, names) in COMMANDS.items():
        for name in names:
            cases[f"{command} {name}"] = (f"{name}.npy", CUT_WHEN_OPENED.format(arguments))
    for case, (code, _, err) in run_cases(folder, cases).items():
        assert code == 2, (case, code, err)
        assert case.split()[1] in err and "Traceback" not in err, (case, err)
        assert err.strip().count("\n") == 0, (case, err)


def test_views_with_gaps_are_read_and_checked_too(tmp_path):
    synthesize(tmp_path / "g", 500, degree=4, features=8, classes=3)
    whole = np.load(tmp_path / "g/features.npy")
    rows = Graph.open(tmp_path / "g").features.data
    for part in (np.s_[:, 2:5], np.s_[::7], np.s_[::-3, ::2], np.s_[10:400:9, ::-1]):
        np.testing.assert_array_equal(fetch(rows[part]), whole[part])
    with open(tmp_path / "g/features.npy", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff")
    with pytest.raises(FormatError, match="features.npy: block 0 "):
        fetch(Graph.open(tmp_path / "g").features.data[:, 2:5])
