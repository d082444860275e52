"""grid: the ranks of a run, as passed to a Loader by the user."""

from foregather.dist.rank_batches import RankBatches
from foregather.dist.transport.rank_grid import RankGrid
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.rank_options import RankSetup

__all__ = ["Grid"]


class Grid(RankGrid):
    """The ranks of a run.

    Starts `torch.distributed` from the environment of torchrun unless it was started already.

    Args:
        replication: c, the ranks that hold the same block row.
        timeout: seconds until a collective gives up.
        backend: of torch.distributed, if it is started here.

    Raises:
        InputError: c does not divide the ranks, ranks differ in version or options, or this
            process was not started by torchrun.
        RankError: a rank cannot be reached, or the port is taken.
    """

    def batch_source(self, recipe: BatchRecipe, options: RankSetup) -> RankBatches:
        """Makes a `Loader`'s source of batches; a collective call."""
        return RankBatches(recipe, self, options)
