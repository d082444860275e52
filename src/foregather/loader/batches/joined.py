"""joined: makes all batches of a small bulk at once, from sampler to tensors.

For batches of a few kilobytes every call costs more than what it does. So the nodes of all batches
are gathered by one call, as are their labels, and each batch is a part of these arrays. Bits are
those of `Assembler.batch`. Only plain batches are made this way: uniform or weighted neighbours,
rows and classes from memory, no weights of edges.
"""

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from foregather.loader.batches.assemble import Assembler
from foregather.loader.batches.batch import Batch
from foregather.loader.links.asked import LinkRows
from foregather.loader.links.left_out import left_out
from foregather.loader.links.link_batch import with_links
from foregather.loader.links.link_seeds import LinkSeeds
from foregather.observe.trace import span
from foregather.sampling.fused import FusedSampler
from foregather.sampling.seeds import flatten

if TYPE_CHECKING:
    from foregather.loader.batch_recipe import BatchRecipe

__all__ = ["SMALL_BULK", "can_join", "join_batches", "tensor_bytes"]

Array = npt.NDArray[Any]

#: Bytes of a bulk up to which its batches are made at once.
SMALL_BULK = 4 << 20


def can_join(recipe: "BatchRecipe") -> bool:
    """Whether batches of a recipe are plain enough."""
    sampler, assembler, graph = recipe.sampler, recipe.assembler, recipe.graph
    return (
        isinstance(sampler, FusedSampler)
        and sampler.joins
        and recipe.edge_index == "tensor"
        and recipe.budget is None
        and not recipe.disjoint
        and recipe.seeds.drawn is None
        and assembler.norm is None
        and assembler.leaves == "rows"
        and graph.edge_weight is None
        and not (assembler.edge_attr and graph.edge_features is not None)
        and not assembler.pin
    )


def tensor_bytes(batch: Batch) -> int:
    """Bytes of the tensors that grow with what was sampled."""
    tensors = (batch.n_id, batch.x, batch.y, batch.edge_index, batch.e_id)
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def join_batches(recipe: "BatchRecipe", epoch: int, start: int, count: int) -> list[Batch]:
    """Samples and assembles the batches from `start` on, up to `count` of them."""
    sampler, seeds = recipe.sampler, recipe.seeds
    assert isinstance(sampler, FusedSampler)
    key, links = (seeds.seed, epoch, start, recipe.threads), None
    with span("sample"):
        if isinstance(seeds, LinkSeeds):
            links = recipe.deal(epoch, start, count)
            nodes, ptr = flatten([own for own, _ in links])
            made = sampler.sample_joined(recipe.graph, nodes, ptr, *key, left_out(links))
        else:
            nodes, input_id, ptr = seeds.run(epoch, start, count)
            made = sampler.sample_joined(recipe.graph, nodes, ptr, *key)
    cuts = ptr.tolist()
    if links is not None:
        inputs = [own.copy() for _, own in links]
    else:
        if input_id is nodes:  # two tensors must not share memory
            input_id = nodes.copy()
        inputs = [input_id[a:b] for a, b in pairwise(cuts)]
    with span("assemble"):
        batches = _cut(recipe.assembler, start, made, nodes, inputs, cuts)
        if links is None:
            return batches
        return [
            with_links(batch, rows.asked)
            for batch, rows in zip(batches, links, strict=True)
            if isinstance(rows, LinkRows)
        ]


def _cut(
    assembler: Assembler,
    first: int,
    made: Any,
    nodes: Array,
    inputs: list[Array],
    cuts: list[int],
) -> list[Batch]:
    """The batches of joined samples."""
    from torch import from_numpy, int64, tensor

    node, ends, edge, fresh, drawn, positions = made
    # Parts of an array are made tensors, not parts of a tensor, which would have all of its
    # storage. They are parts of what a tensor lends: this keeps memory of the pool from going back.
    rows, classes = (
        None if found is None else found.numpy()
        for found in (assembler.rows(node), assembler.classes(node))
    )
    known = [0, *accumulate(map(sum, fresh))]
    edges = [0, *accumulate(map(sum, drawn))]
    whole = assembler.labels == "all"
    batches = []
    for i, counts in enumerate(fresh):
        a, b, m, e = known[i], known[i + 1], edges[i], edges[i + 1]
        last, given = b if whole else a + counts[0], slice(cuts[i], cuts[i + 1])
        at = positions[i] if positions else ()
        batches.append(
            Batch(
                batch_size=counts[0],
                n_id=from_numpy(node[a:b]),
                x=None if rows is None else from_numpy(rows[a:b]),
                y=None if classes is None else from_numpy(classes[a:last]),
                edge_index=from_numpy(ends[2 * m : 2 * e].reshape(2, e - m)),
                e_id=from_numpy(edge[m:e]),
                input_id=from_numpy(inputs[i]),
                seed_id=from_numpy(nodes[given]),
                num_sampled_nodes=counts,
                num_sampled_edges=drawn[i],
                seed_position=tensor(at, dtype=int64) if at else None,
                number=first + i,
            )
        )
    return batches
