"""Docs: the example of the how-to on accelerated typed models runs, and is accelerated."""

import re
import warnings

import pytest
import torch

from foregather.graph.hetero.synthetic.make import synthetic_typed
from tests.processes import ROOT

pytest.importorskip("torch_geometric.nn")
PAGE = ROOT / "docs/howto/accelerate.md"


def test_the_example_runs_and_is_accelerated():
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"^<!-- test: typed -->\n```python\n(.*?)^```", text, re.M | re.S)
    assert code
    graph = synthetic_typed(2000, types=3, features=8)
    made = {"__name__": "example", "torch": torch, "graph": graph}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code[1], str(PAGE), "exec"), made)
    fast, batch = made["fast"], made["batch"]
    assert fast.plain is None
    assert "training: accelerated" in fast.explain()
    assert fast(batch).shape == (batch["t0"].batch_size, 8)
