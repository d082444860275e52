"""A LinkLoader over ranks: the batches of one rank, dealt out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from foregather import InputError, RankOptions
from foregather.loader.rank_options import rank_setup
from foregather.sampling import Neighbor
from tests.dist import rank_links
from tests.dist.world import World


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_batches_are_those_of_one_rank(launcher, tmp_path, size):
    graph = rank_links.link_graph()
    graph.save(tmp_path / "graph")
    with World(launcher, size, "links", tmp_path) as world:
        codes = world.wait(600)
        assert codes == [0] * size, "\n".join(world.output(rank) for rank in range(size))
    parts = [json.loads((tmp_path / f"links{rank}.json").read_text()) for rank in range(size)]
    for name, _, negatives, out in rank_links.LOADERS:
        trees = name.startswith("trees")
        loader = rank_links.link_loader(graph, negatives, out, disjoint=trees)
        wanted = [[rank_links.digest(batch) for batch in loader] for _ in range(3)]
        assert len(wanted[0]) == 15
        for epoch, first in ((0, 0), (1, 0), (2, 1)):
            for rank, part in enumerate(parts):
                found = part[name][epoch]
                assert len(found) == -(-15 // size) - first
                for step, made in enumerate(found, first):
                    number = step * size + rank
                    if number < 15 and (number + size) // size * size <= 15:  # share is 1
                        assert made == wanted[epoch][number], (name, epoch, number)


def test_the_staged_product_samples_no_disjoint_trees():
    maker = rank_links.link_loader(rank_links.link_graph(), None, False, disjoint=True)._maker
    for topology in ("partitioned", "replicated"):
        assert rank_setup(maker, RankOptions(topology=topology), 8, None, "auto").bulk == 8
    with pytest.raises(InputError, match="disjoint=True samples each tree.*mode='owner'"):
        rank_setup(maker, RankOptions(mode="paper"), 8, None, "auto")


def test_links_are_left_out_of_parts_by_uniform_samplers_and_labor():
    graph = rank_links.link_graph()
    maker = rank_links.link_loader(graph, None, True)._maker
    for topology in ("partitioned", "replicated"):
        assert rank_setup(maker, RankOptions(topology=topology), 8, None, "auto").bulk == 8
    by_weight = replace(maker, sampler=Neighbor([4], weights=np.ones(graph.num_edges)))
    for own, mode in ((by_weight, "owner"), (maker, "paper")):
        with pytest.raises(InputError, match="topology='replicated'\\), or exclude_seed_edges"):
            rank_setup(own, RankOptions(mode=mode), 8, None, "auto")
