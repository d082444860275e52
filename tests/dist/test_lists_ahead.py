"""Lists of edges are made with the batches of ranks too, by the thread that makes these."""

import json

from foregather.loader.prefetch import THREAD_NAME
from tests.dist.world import World
from tests.some import some


def test_lists_are_made_with_the_batches_of_ranks(launcher, tmp_path):
    with World(launcher, 2, "lists", tmp_path) as world:
        codes = world.wait(300)
        assert codes == [0, 0], "\n".join(world.output(rank) for rank in range(2))
    for rank in some(range(2)):
        facts = json.loads((tmp_path / f"lists{rank}.json").read_text())
        assert facts["plain"] is None
        assert facts["built"] == [THREAD_NAME] * facts["steps"]
