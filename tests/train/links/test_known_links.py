"""What lists, ranks and filters take for known links."""

from dataclasses import replace

import numpy as np

from foregather.train.links.link_data import read_links
from tests.train.links.small_links import plain_graph

NAMES = {"train": "train", "valid": "valid", "test": "test"}


def pairs_of(known):
    sources = np.repeat(np.arange(known.num_sources), known.counts)
    return set(zip(sources.tolist(), known.targets.tolist(), strict=True))


def test_links_of_an_undirected_graph_are_known_in_both_directions():
    graph = plain_graph()
    data = read_links(graph, "", NAMES)
    held = {(int(a), int(b)) for part in data.splits.values() for a, b in part.index.T}
    turned = {(b, a) for a, b in held}
    assert not held & turned  # each is stored in one direction
    for known in (data.known(), data.known(turned=True), data.known_of(0)):
        assert pairs_of(known) == held | turned


def test_links_of_a_directed_graph_are_known_as_they_are():
    graph = plain_graph()
    data = read_links(replace(graph, meta={**graph.meta, "undirected": False}), "", NAMES)
    test = {(int(a), int(b)) for a, b in data.splits["test"].index.T}
    found = pairs_of(data.known())
    assert test <= found and not found & {(b, a) for a, b in test}
    back = pairs_of(data.known(turned=True))
    assert {(b, a) for a, b in test} <= back and not back & test
