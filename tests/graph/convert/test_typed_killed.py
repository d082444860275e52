"""A killed typed conversion goes on after its finished steps; nothing half-made is ever used."""

import json
import os
import signal
import subprocess
import sys

import pytest

from foregather import InputError, convert
from foregather.graph.convert.typed import nodes as writing
from foregather.graph.convert.typed import reader as reading
from foregather.graph.convert.typed import run
from foregather.graph.hetero import HeteroGraph
from tests.graph.convert.typed_tables import random_tables
from tests.some import some

# kills itself when the journal has had a number of lines
CHILD = """
import os, signal, sys
from foregather import convert
from foregather.graph.convert.typed import journal

count = int(sys.argv[3])
append = journal._append

def counted(path, text):
    global count
    count -= 1
    if count == 0:
        if sys.argv[4] == "torn":
            append(path, text[: len(text) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    append(path, text)

journal._append = counted
convert(sys.argv[1], sys.argv[2], memory="4GB")
"""
STEPS = 11  # types, names of facts, and relations


def killed(path, target, line: int, how: str = "whole") -> None:
    made = subprocess.run([sys.executable, "-c", CHILD, str(path), str(target), str(line), how])
    assert made.returncode == -signal.SIGKILL


@pytest.fixture
def tables(tmp_path):
    made = random_tables(5, 120, True)
    return made, made.write(tmp_path / "in")


def left(folder) -> list[str]:
    return sorted(one for one in os.listdir(folder) if one != "in")


@pytest.mark.parametrize(("line", "how"), [(1, "whole"), (4, "torn"), (7, "whole"), (11, "torn")])
def test_the_same_command_goes_on_after_a_kill(tables, tmp_path, line, how):
    made, path = tables
    before = {one.name: one.read_bytes() for one in some(path.parent.iterdir())}
    killed(path, tmp_path / "g", line, how)
    assert left(tmp_path) == ["g.partial"]  # nothing that could be taken for a graph
    facts = convert(path, tmp_path / "g", memory="4GB")
    assert facts["reused"] == line - 1
    assert (f"{line - 1} finished steps" in "\n".join(facts["notes"])) == (line > 1)
    assert facts["dropped"] == made.dropped
    convert(path, tmp_path / "h", memory="4GB")
    found = [
        {
            str(one.relative_to(tmp_path / name)): one.read_bytes()
            for one in (tmp_path / name).rglob("*")
            if one.is_file()
        }
        for name in ("g", "h")
    ]
    assert found[0] == found[1]
    assert HeteroGraph.open(tmp_path / "g").digest == made.graph.digest
    assert left(tmp_path) == ["g", "h"]
    assert before == {one.name: one.read_bytes() for one in path.parent.iterdir()}


def test_a_finished_step_is_not_done_again(tables, tmp_path, monkeypatch):
    _, path = tables
    killed(path, tmp_path / "g", 6)
    done = []
    monkeypatch.setattr(run, "write_type", lambda *given: done.append(given[1].name))
    convert(path, tmp_path / "g", memory="4GB")
    assert done == []


def test_a_table_that_changed_since_the_kill_is_read_again(tables, tmp_path):
    made, path = tables
    killed(path, tmp_path / "g", 9)
    other = random_tables(6, 120, True)
    other.write(tmp_path / "in")
    facts = convert(path, tmp_path / "g", memory="4GB")
    assert facts["reused"] == 0
    assert HeteroGraph.open(tmp_path / "g").digest == other.graph.digest != made.graph.digest


def test_another_description_of_the_same_tables_is_not_mixed_up(tables, tmp_path):
    made, path = tables
    killed(path, tmp_path / "g", 11)
    text = path.read_text()
    path.write_text(text.replace('features = ["age"]\n', "", 1))
    convert(path, tmp_path / "g", memory="4GB")
    convert(path, tmp_path / "h", memory="4GB")
    first, second = (HeteroGraph.open(tmp_path / name) for name in ("g", "h"))
    assert first.digest == second.digest != made.graph.digest
    assert list(first.nodes["user"].features) == ["kind"]
    first.verify()


@pytest.mark.parametrize("where", ["array", "blocks", "gone", "journal"])
def test_what_was_damaged_since_the_kill_is_made_again(tables, tmp_path, where):
    made, path = tables
    killed(path, tmp_path / "g", 10)
    partial = tmp_path / "g.partial"
    lines = (partial / "steps.jsonl").read_text().splitlines()
    name = next(iter(json.loads(lines[1])["arrays"]))  # the first line is of names
    if where == "journal":
        (partial / "steps.jsonl").write_text("\n".join(["[]", *lines]))
    elif where == "gone":
        (partial / f"graph/{name}.npy").unlink()
    else:
        file = partial / "graph" / f"{name}.{'npy' if where == 'array' else 'crc'}"
        data = bytearray(file.read_bytes())
        data[4096] ^= 1  # the first byte after the header
        file.write_bytes(data)
    (partial / "graph/stray.npy").write_bytes(b"no array of ours")
    facts = convert(path, tmp_path / "g", memory="4GB")
    assert facts["reused"] == (0 if where == "journal" else 8)
    graph = HeteroGraph.open(tmp_path / "g")
    graph.verify()
    assert graph.digest == made.graph.digest
    assert not (tmp_path / "g/stray.npy").exists()


def test_an_interrupt_leaves_nothing(tables, tmp_path, monkeypatch):
    _, path = tables

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing._Columns, "finish", stop)
    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path / "g", memory="4GB")
    assert left(tmp_path) == []


def test_a_table_that_changes_while_it_is_read_is_refused(tables, tmp_path, monkeypatch):
    _, path = tables
    add = writing._Columns.add

    def and_change(self, batch):
        add(self, batch)
        table = path.parent / "item.parquet"
        os.utime(table, ns=(0, table.stat().st_mtime_ns + 1))

    monkeypatch.setattr(writing._Columns, "add", and_change)
    with pytest.raises(InputError, match=r"item\.parquet changed while it was read; convert it"):
        convert(path, tmp_path / "g", memory="4GB")
    assert left(tmp_path) == []


def test_nothing_is_read_after_a_table_that_changed(tables, tmp_path, monkeypatch):
    """What is wrong with the mixture would otherwise be told in place of the change."""
    _, path = tables
    begun = []

    def read(table, *others):
        begun.append(table)
        for batch in read_columns(table, *others):
            os.utime(table, ns=(0, os.stat(table).st_mtime_ns + 1))
            yield batch

    read_columns = reading.read_columns
    monkeypatch.setattr(reading, "read_columns", read)
    with pytest.raises(InputError, match="changed while it was read"):
        convert(path, tmp_path / "g", memory="4GB")
    assert len(begun) == 1
    assert left(tmp_path) == []
