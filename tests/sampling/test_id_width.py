"""Kernels are chosen by the width of ids, and the width changes no minibatch."""

from dataclasses import replace

import numpy as np
import pytest

from foregather import _core
from tests.helpers_sampling import random_graph
from tests.sampling.test_kernel_cache import SAMPLERS, SEEDS

INDPTR = np.array([0, 2, 3], np.int64)
NUMBERS = np.array([0, 1], np.int64)


def make(name, ids):
    """What a factory of the core makes for ids like these."""
    keys = np.array([5], np.uint64)
    return {
        "neighbor_kernel": lambda: _core.neighbor_kernel(INDPTR, ids, [2], False, True),
        "labor_kernel": lambda: _core.labor_kernel(INDPTR, ids, [2], True, False, 0),
        "subgraph_kernel": lambda: _core.subgraph_kernel(INDPTR, ids, 0),
        "layerwise_tables": lambda: _core.layerwise_tables(ids),
        "row_inquiry": lambda: _core.row_inquiry(
            ids[:1], NUMBERS, np.array([0, 1, 2]), keys, 1, False, 0
        ),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["neighbor_kernel", "labor_kernel", "subgraph_kernel", "layerwise_tables", "row_inquiry"],
)
def test_the_core_looks_at_the_arrays(name):
    for dtype, width in ((np.uint32, "32"), (np.int64, "64")):
        assert type(make(name, np.array([0, 1, 0], dtype))).__name__.endswith(width)
    for dtype in (np.int32, np.uint64, np.float64):
        with pytest.raises(TypeError):
            make(name, np.array([0, 1, 0], dtype))


@pytest.mark.parametrize("name", SAMPLERS)
def test_wider_ids_give_the_same_minibatches(name):
    narrow = random_graph(40, 200, 3, weighted=True)
    wide = replace(narrow, indices=narrow.indices.astype(np.int64))
    assert narrow.indices.dtype == np.uint32
    both = [SAMPLERS[name]().sample_bulk(graph, SEEDS, seed=4) for graph in (narrow, wide)]
    for one, other in zip(*both, strict=True):
        assert other.node.dtype == np.int64
        for field in ("node", "row", "col", "edge"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
