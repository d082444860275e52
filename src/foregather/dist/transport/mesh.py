"""mesh: the groups of a grid as torch's DeviceMesh of p/c x c ranks.

The groups are created here and passed to the mesh, not by `init_device_mesh`: that one does not use
our timeout (its groups wait for half an hour), and for a dimension that spans all ranks it returns
the default group, which gradients use. Collectives of another thread there would be mixed up with
ours.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from foregather.errors import InputError

if TYPE_CHECKING:
    from foregather.dist.transport.rank_grid import RankGrid

__all__ = ["DIMENSIONS", "check_mesh", "join_all", "leave", "make_mesh"]

#: What lies along each dimension of the mesh: the ranks of a grid column, and of a grid row.
DIMENSIONS = ("column", "row")


def make_mesh(grid: "RankGrid") -> DeviceMesh:
    """Creates new groups of a grid; a collective call.

    Raises:
        RankError: a rank does not take part within the timeout.
    """
    table = torch.arange(grid.size, dtype=torch.int).view(grid.num_rows, grid.replication)
    groups = [_join(grid, ranks.tolist()) for ranks in (table.T, table)]
    # What is sent here is in host memory, whatever carries the gradients.
    return DeviceMesh.from_group(groups, "cpu", mesh=table, mesh_dim_names=DIMENSIONS)


def _join(grid: "RankGrid", groups: list[list[int]]) -> Any:
    options: dict[str, Any] = {"backend": "gloo", "timeout": timedelta(seconds=grid.timeout)}
    joined: Any = None
    with grid.watch.step("making groups"):
        # Every rank takes part in making every group, also in those of one rank: what torch makes
        # locally it names by how many groups there are, and that number comes again.
        for ranks in groups:
            group = dist.new_group(ranks, **options)
            joined = group if grid.rank in ranks else joined
        # A rank returns as soon as its own links are made. Were it to leave the group at once, its
        # links would be closed while a slower rank is still making them.
        dist.barrier(group=joined)
    return joined


def join_all(grid: "RankGrid") -> Any:
    """Creates a group of all ranks; a collective call."""
    return _join(grid, [list(range(grid.size))])


def leave(mesh: DeviceMesh) -> None:
    """Leaves the groups of a mesh."""
    for group in mesh.get_all_groups():
        if dist.is_initialized():
            dist.destroy_process_group(group)


def check_mesh(mesh: DeviceMesh) -> int:
    """Returns the replication that a mesh implies.

    Raises:
        InputError: it does not have all ranks in order, in one or two dimensions.
    """
    table = mesh.mesh
    ranks = dist.get_world_size()
    if table.ndim not in (1, 2) or table.flatten().tolist() != list(range(ranks)):
        raise InputError(
            f"the mesh has ranks {table.tolist()}, expected ranks 0 to {ranks - 1} in order, of "
            "shape [p/c, c]"
        )
    return int(table.shape[1]) if table.ndim == 2 else 1
