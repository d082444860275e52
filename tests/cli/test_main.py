"""The command line as a person meets it: summaries, JSON, one sentence for bad input."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from foregather.cli.main import _parse, main
from foregather.graph import Graph

COMMANDS = ("quickstart", "synth", "convert", "info", "verify", "doctor", "train-full")


def start(*args: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "foregather", *(str(a) for a in args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*args: object) -> tuple[int, str, str]:
    with start(*args) as process:
        try:
            out, err = process.communicate(timeout=3600)  # only a hang takes so long, at any load
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, out, err


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.npy"
    np.save(path, np.array([[0, 1, 2], [1, 2, 0]]))
    return path


def test_help_names_every_command(capsys):
    code, out, _ = run("--help")
    assert code == 0
    for command in COMMANDS:
        assert command in out
        assert main([command, "--help"]) == 0
        assert f"usage: foregather {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("convert --frobnicate", "convert has no flag --frobnicate; see foregather convert --help"),
        ("convert a b --undirectd", "convert has no flag --undirectd; did you mean --undirected?"),
        (
            "train --batch-size 3",
            "train has no flag --batch-size; did you mean --train.batch-size?",
        ),
        ("trian", "there is no command 'trian'; did you mean train?"),
        ("nonsense", "there is no command 'nonsense'; expected quickstart, synth, convert"),
        (
            "train --memory.storage featurs",
            "--memory.storage is 'featurs', expected one of auto, memory, features, topology, "
            "disk; did you mean features?",
        ),
        ("train --grid.wire=int9", "expected one of exact, float16, int8; did you mean int8?"),
        ("convert a b --dtype", "--dtype has no value, expected one of auto, float32"),
        ("train-full g --boundary float", "--boundary is 'float', expected one of bfloat16"),
        ("train --train.epochs ten", "--train.epochs is 'ten', expected a whole number"),
        ("synth g --split 0.1 a 0.2", "--split is 'a', expected a number"),
        ("plan g --fanouts 10 x", "--fanouts is 'x', expected a whole number"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(line, said, capsys):
    assert main(line.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith("foregather: ") and err.count("\n") == 1 and said in err


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("doctor --no-disk", {"no_disk": True}),
        ("convert a b --no-splits --threads=2", {"splits": False, "threads": 2}),
        ("convert a b --columns x y --self_loops", {"columns": ("x", "y"), "self_loops": True}),
        ("train-full g --boundary None --chunks 2", {"boundary": None, "chunks": 2}),
        ("plan g --memory 1GB auto --rehearse 1 3", {"memory": ("1GB", "auto")}),
        ("bench cache --memory 0.5", {"memory": (0.5,)}),
    ],
)
def test_what_is_right_is_let_through(line, parsed):
    command = _parse(line.split())
    assert {name: getattr(command, name) for name in parsed} == parsed


@pytest.mark.parametrize("line", ["plan G --fanouts 10 0", "bench cache --nodes 2k --fanouts 10 0"])
def test_fanouts_are_called_as_they_were_given(line, edges, tmp_path, capsys):
    assert main(["convert", str(edges), str(tmp_path / "g")]) == 0
    capsys.readouterr()
    assert main([str(tmp_path / "g") if word == "G" else word for word in line.split()]) == 2
    assert "--fanouts has 0 for layer 1, expected a positive number" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    for arguments in ("plan --help", "info nowhere --help"):
        python = shlex.quote(sys.executable)
        line = f"{python} -m foregather {arguments} | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=600)
        assert done.stderr == "" and done.stdout.strip() in ("0", "141")


def test_summary_and_json(edges, tmp_path, capsys):
    code, out, err = run("convert", edges, tmp_path / "g")
    assert code == 0 and err == ""
    assert "g: 3 nodes, 3 edges from edges.npy" in out and "peak memory" in out
    assert main(["convert", str(edges), str(tmp_path / "h"), "--undirected", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["num_edges"] == 6 and facts["undirected"] is True
    code, out, _ = run("info", tmp_path / "g", "--json")
    assert code == 0 and json.loads(out)["num_nodes"] == 3
    assert main(["verify", str(tmp_path / "g")]) == 0


def test_a_program_that_calls_it_keeps_its_signals(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    assert main(["synth", str(tmp_path / "graph"), "--nodes", "100", "--json"]) == 0
    assert main(["info", str(tmp_path / "missing")]) == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_can_be_called_in_a_thread(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(main, ["synth", str(tmp_path / "graph"), "--nodes", "100", "--json"])
        assert code.result() == 0


def test_synth_then_info_with_a_plot(tmp_path):
    code, out, err = run(
        "synth", tmp_path / "s", "--nodes", "2k", "--degree", "8", "--features", "4"
    )
    assert code == 0, err
    assert "2,000" in out and "16,000" in out and "peak" in out
    plot = tmp_path / "degrees.png"
    code, out, err = run("info", tmp_path / "s", "--plot", plot)
    assert code == 0, err
    assert plot.read_bytes().startswith(b"\x89PNG")


def one_sentence(args, tmp_path, message, target="g", capsys=None):
    """In a process of its own, or with `capsys` in this one."""
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    if capsys is None:
        code, _out, err = run(*args)
    else:
        code, err = main([str(arg) for arg in args]), capsys.readouterr().err
    assert code == 2, err
    assert err.startswith("foregather: ") and err.count("\n") == 1 and "Traceback" not in err
    assert message in err
    assert not (tmp_path / f"{target}.partial").exists()
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    return err


def test_bad_input_is_one_sentence_and_exit_code_2(edges, tmp_path, capsys):
    target = tmp_path / "g"
    one_sentence(["convert", tmp_path / "no.npy", target], tmp_path, "no.npy does not exist")
    one_sentence(["convert", edges, target, "--memory", "lots"], tmp_path, "size", capsys=capsys)
    one_sentence(
        ["convert", edges, target, "--memory", "1MB"], tmp_path, "needs at least", capsys=capsys
    )
    one_sentence(["info", tmp_path / "nowhere"], tmp_path, "nowhere", capsys=capsys)
    one_sentence(["synth", target, "--nodes", "0"], tmp_path, "nodes", capsys=capsys)
    edges.write_bytes(edges.read_bytes()[:150])
    one_sentence(["convert", edges, target], tmp_path, "truncated", capsys=capsys)
    np.save(edges, np.array([[0, -1], [1, 1]]))
    one_sentence(["convert", edges, target], tmp_path, "edge 1 has source -1", capsys=capsys)
    np.save(edges, np.array([[0.0, np.nan], [1, 1]]))
    one_sentence(["convert", edges, target], tmp_path, "expected an integer id", capsys=capsys)
    target.mkdir()
    one_sentence(
        ["convert", edges, target], tmp_path, "g exists already; pass --overwrite", capsys=capsys
    )


def test_errors_as_json_too(tmp_path):
    code, out, err = run("convert", tmp_path / "no.npy", tmp_path / "g", "--json")
    assert code == 2 and json.loads(out)["kind"] == "StorageError" and err.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
@pytest.mark.parametrize("command", ["convert", "synth"])
def test_interrupted_work_leaves_no_folder_that_opens(tmp_path, command, number, code):
    target, partial = tmp_path / "g", tmp_path / "g.partial"
    if command == "convert":
        source = tmp_path / "edges.npy"
        rng = np.random.default_rng(0)
        np.save(source, rng.integers(0, 1_000_000, (2, 6_000_000)))
        args = ["convert", source, target, "--memory", "300MB"]
    else:
        args = ["synth", target, "--nodes", "4M", "--features", "64"]
    process = start(*args)
    wait_for(lambda: (partial / "graph/indices.npy").exists(), process)
    process.send_signal(number)
    _, err = process.communicate(timeout=600)
    assert process.returncode == code, err
    assert not target.exists()
    if number != signal.SIGKILL:
        assert not partial.exists() and "Traceback" not in err
        return
    assert not (partial / "graph/meta.json").exists()
    small = tmp_path / "small.npy"
    np.save(small, np.array([[0], [1]]))
    assert run("convert", small, target)[0] == 0  # a second try clears the remains
    assert Graph.open(target).num_edges == 1 and not partial.exists()


def wait_for(condition, process):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("command", ["convert", "synth"])
def test_a_full_disk(tmp_path, command):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        if command == "convert":
            source = tmp_path / "edges.txt"  # text: the size is not known beforehand
            pairs = np.random.default_rng(0).integers(0, 100_000, (100_000, 2))
            lines = "".join(f"{one} {other}\n" for one, other in pairs.tolist())
            source.write_text(20 * lines)
            args = ["convert", source, disk / "g", "--memory", "200MB"]
        else:
            args = ["synth", disk / "g", "--nodes", "100k", "--features", "32"]
        code, _, err = run(*args)
        assert code == 2 and "no space left on the disk" in err and err.count("\n") == 1
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_memory_is_a_promise(tmp_path):
    source = tmp_path / "edges.npy"
    rng = np.random.default_rng(0)
    edges = (2_000_000 * rng.random((2, 8_000_000)) ** 3).astype(np.int64)
    np.save(source, edges)  # 128 MB; with reverses and records three times that
    flags = ["--memory", "250MB", "--undirected", "--json"]
    code, out, err = run("convert", source, tmp_path / "g", *flags)
    assert code == 0, err
    assert json.loads(out)["peak_memory"] <= 250e6


def test_quickstart(tmp_path):
    flags = ["--nodes", "3k", "--epochs", "5", "--json"]
    code, out, err = run("quickstart", tmp_path / "q", *flags)
    assert code == 0, err
    facts = json.loads(out)
    assert facts["accuracy"]["SAGE"] > facts["accuracy"]["MLP"] + 0.1
    assert facts["accuracy"]["MLP"] > 2 * facts["chance"]
    assert all(Path(plot).stat().st_size > 5000 for plot in facts["plots"])
    assert "How much of each class is found" in Path(facts["report"]).read_text()
