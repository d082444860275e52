"""Every sampler x mode x topology x storage: one rank's batches, or a refusal with true advice."""

import json

import pytest

from foregather import Graph
from foregather.dist.sampling.layers import _NoGraph
from foregather.dist.sampling.partition import Partition
from foregather.errors import InputError
from tests.dist import rank_table
from tests.dist.rank_table import OWN, SAMPLERS, WAYS, made_by
from tests.dist.world import World

pytestmark = pytest.mark.slow  # one world, but sixty Loaders in it

RANKS = 2
SUBGRAPHS = ("RandomWalk", "Saint node", "Saint edge", "Saint walk")
WHOLE = ("Saint node", "Saint edge", "Saint walk", "ByNumber")  # these look at every edge
PAPER = ("Neighbor", "Neighbor per layer", "Neighbor by weight", "Ladies", "EveryOther")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("table")
    rank_table.table_graph().save(made / "graph")
    return made


@pytest.fixture(scope="module")
def alone(folder):
    """What one rank makes, by sampler."""
    graph = Graph.open(folder / "graph")
    return {name: made_by(graph, name) for name in SAMPLERS}


@pytest.fixture(scope="module")
def tries(launcher, folder):
    """For each way what all ranks made, try by try."""
    with World(launcher, RANKS, "table", folder) as world:
        assert world.wait(600) == [0] * RANKS, "\n".join(map(world.output, range(RANKS)))
    parts = [json.loads((folder / f"table{rank}.json").read_text()) for rank in range(RANKS)]
    return dict(zip(WAYS, zip(*parts, strict=True), strict=True))


def works(name, mode, topology, storage):
    """Whether a way is one that exists."""
    if storage == "topology" or (mode == "paper" and storage != "memory"):
        return False
    if topology == "replicated":
        return True
    return name in PAPER if mode == "paper" else name not in SUBGRAPHS


def test_closed_and_refused_loaders_leave_no_links(tries, folder):
    assert len(tries) == len(WAYS)
    for rank in range(RANKS):
        links = json.loads((folder / f"links{rank}.json").read_text())
        assert len(links) == len(WAYS) + 4
        # a loader had up to 18; connections to the store may come and go
        assert max(links) - min(links) <= 4, links


def test_every_way_gives_one_ranks_batches_or_advice_that_works(alone, tries):
    for way, parts in tries.items():
        counts = {len(part) for part in parts}
        assert len(counts) == 1, way  # ranks are refused together
        refusals = [text for part in parts for text in part[:-1]]
        assert (not refusals) == works(*way), (way, refusals)
        for text in refusals:
            assert text.startswith("InputError: ") and "use " in text and "\n" not in text, way
        final = [part[-1] for part in parts]
        assert all(isinstance(one, dict) for one in final), (way, final)
        together = {number: text for one in final for number, text in one.items()}
        assert together == alone[way[0]], way


def test_samplers_of_ones_own_do_not_make_what_built_in_ones_make(alone):
    assert all(isinstance(one, dict) and len(one) == 6 for one in alone.values())
    assert alone["EveryOther"] != alone["Neighbor"] and alone["Inverse"] != alone["Ladies"]
    assert (
        len({json.dumps(alone[name]) for name in OWN}) >= len(OWN) - 2
    )  # weights are asked thrice


@pytest.mark.parametrize("storage", ["memory", "features", "topology", "disk", "auto"])
def test_on_one_machine_too(folder, alone, storage):
    graph = Graph.open(folder / "graph")
    for name in SAMPLERS:
        options = {"storage": storage, "memory": "64MB"}
        made = made_by(graph, name, **options)
        in_memory = storage not in ("topology", "disk")
        assert isinstance(made, dict) == (in_memory or name not in WHOLE), (name, made)
        if isinstance(made, str):
            made = made_by(graph, name, **rank_table.advised(made, options))
        assert made == alone[name], name


def test_a_block_without_its_graph_refuses_by_name():
    graph = rank_table.table_graph()
    block = Partition.of(graph, 2, 1)
    assert block.whole is graph
    stand_in = _NoGraph(block)
    assert (stand_in.num_nodes, stand_in.num_edges) == (graph.num_nodes, graph.num_edges)
    with pytest.raises(InputError, match=r"uses graph.in_degree, but this rank has a block"):
        stand_in.in_degree()
