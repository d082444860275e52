"""foregather bench cache: the table, its JSON and the plot."""

import json

import pytest

from foregather.cli.main import main
from foregather.graph.synthetic import synthesize
from foregather.plan.baselines.policies import POLICIES

SMALL = ["--nodes", "3000", "--bulk", "6", "--bulks", "2", "--batch-size", "20"]


def test_table_of_all_policies(capsys):
    assert main(["bench", "cache", *SMALL, "--memory", "0.05", "0.5"]) == 0
    text = capsys.readouterr().out
    for name in [*POLICIES, "bound"]:
        assert text.count(f" {name} ") == 2
    assert "default figures" in text


def test_json_of_a_folder(tmp_path, capsys):
    synthesize(tmp_path / "g", 2000, features=16)
    plot = tmp_path / "plot.svg"
    arguments = ["bench", "cache", str(tmp_path / "g"), *SMALL[2:], "--json", "--plot", str(plot)]
    assert main([*arguments, "--memory", "0.1", "0.3"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["num_rows"] == 2000 and facts["row_bytes"] == 64
    table = {(one["policy"], round(one["memory_share"], 2)): one for one in facts["table"]}
    assert len(table) == 2 * len(POLICIES)
    for bound, share in zip(facts["bounds"], (0.1, 0.3), strict=True):
        assert table["belady", share]["misses"] >= bound["rows"]
        assert table["ours", share]["requests"] >= 1
    assert table["ours", 0.1]["seconds"] <= table["ginex", 0.1]["seconds"]
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory", "2"], "shares from 0 to 1"),
        (["--policies", "fifo"], "expected one of"),
        (["--bulks", "0"], "at least one bulk"),
        (["--block", "1000B"], "multiple of 4096"),
    ],
)
def test_bad_options_are_one_sentence(arguments, message, capsys):
    assert main(["bench", "cache", *SMALL, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
