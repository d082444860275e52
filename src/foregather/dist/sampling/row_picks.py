"""row_picks: picks made by the owner of a row, by weight or by number, and their encoding.

For samplers whose picks of a row depend on its own entries, keys and degree: `Neighbor` by weight
and `Labor`. The owner runs the sampler's own verb on its rows. For each distinct node, in ascending
order, these varints are sent: degree and start of its row, the positions that at least one
minibatch picked (unless all were) and their sources; then, where several minibatches asked or picks
repeat, which of those each one picked. Each source is sent once, however many picked it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.sampling.partition import Partition
from foregather.dist.transport.message_pack import pack, unpack
from foregather.dist.transport.varint import Numbers
from foregather.errors import InputError
from foregather.sampling.labor import Labor
from foregather.sampling.matrix import checked_picks
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.rows import GivenRows, pointer
from foregather.sampling.sampler import Sampler

__all__ = ["PickRule", "Picked", "answer_picks", "pick_rows", "picks_by_row", "read_picks"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def picks_by_row(sampler: Sampler) -> bool:
    """Whether the owner of a row can make its picks with the verbs here; subclasses may not."""
    by_weight = type(sampler) is Neighbor and sampler.weights is not None
    return by_weight or type(sampler) is Labor


@dataclass(frozen=True)
class PickRule:
    """What is picked, and which parts of it are sent.

    Attributes:
        sampler: the rule.
        layer: number of the layer.
        threads: threads to use.
    """

    sampler: Neighbor | Labor
    layer: int
    threads: int = 1

    @property
    def repeats(self) -> bool:
        """A pick may come twice."""
        return isinstance(self.sampler, Neighbor) and self.sampler.replace

    def values(self, partition: Partition) -> bool:
        """Whether edge weights are sent with picks."""
        weighs = isinstance(self.sampler, Labor) and self.sampler.debias is not None
        return weighs and partition.edge_weight is not None


@dataclass(frozen=True, eq=False)
class Picked:
    """Picks of stacked rows.

    Attributes:
        counts: int64, picks of each row.
        degree: int64, entries of each row.
        edge: int64 positions in the whole graph.
        columns: their sources.
        value: float32 edge weights, or None if they are not needed.
    """

    counts: Int
    degree: Int
    edge: Int
    columns: Array
    value: npt.NDArray[np.float32] | None


def pick_rows(
    partition: Partition, rule: PickRule, rows: Array, batch_ptr: Int, keys: Keys
) -> Picked:
    """Picks of rows that this rank owns, stacked by minibatch."""
    local = rows.astype(np.int64) - partition.first_row
    begin = partition.indptr[local]
    degree = partition.indptr[local + 1] - begin
    ptr = pointer(degree)
    edge = np.arange(ptr[-1]) + np.repeat(begin - ptr[:-1], degree)
    at = edge - partition.indptr[0]
    columns, weight = partition.indices[at], partition.edge_weight
    given = None if weight is None else weight[at]
    p = GivenRows(
        graph=partition,  # type: ignore[arg-type] # stands for the graph
        layer=rule.layer,
        rows=rows,
        batch_ptr=batch_ptr,
        ptr=ptr,
        columns=columns,
        edge=edge,
        keys=keys,
        nodes=rows,
        node_ptr=batch_ptr,
        frontier=np.zeros(len(keys), np.int64),
        threads=rule.threads,
        given=None if given is None else given.astype(np.float64),
    )
    entry = checked_picks(p, rule.sampler.sample(p)).entry
    counts = np.bincount(p.row[entry], minlength=len(rows))
    value = given[entry] if given is not None and rule.values(partition) else None
    return Picked(counts, degree, edge[entry], columns[entry], value)


# ---- encoding ----------------------------------------------------------------------------------


def answer_picks(partition: Partition, request: Bytes, rule: PickRule) -> Bytes:
    """Makes the owner's reply to a request made by `RowInquiry`.

    Raises:
        InputError: the request is damaged, or is for rows of other owners.
    """
    rows, batch_ptr, keys = _read_request(partition, request)
    picked = pick_rows(partition, rule, rows, batch_ptr, keys)
    order = np.argsort(rows, kind="stable")  # by node, then by minibatch
    distinct, asked = np.unique(rows, return_counts=True)
    local = distinct.astype(np.int64) - partition.first_row
    begin, end = partition.indptr[local], partition.indptr[local + 1]
    degree, filled = end - begin, end > begin
    # Positions in the graph ascend with nodes, so one sorted list has the picks of all rows.
    union = np.unique(picked.edge)
    low, high = np.searchsorted(union, begin), np.searchsorted(union, end)
    counts = high - low
    first = np.zeros(len(union), np.bool_)
    first[low[counts > 0]] = True
    group = np.repeat(np.arange(len(distinct)), counts)
    place, source = union - begin[group], partition.indices[union - partition.indptr[0]]
    some = (counts < degree)[group]
    steps = np.where(first, place, np.diff(place, prepend=0) - 1)[some]
    sources = source.astype(np.int64)
    leaps = np.where(first, sources, np.diff(sources, prepend=0))
    pair_group = np.repeat(np.arange(len(distinct)), asked)
    told = filled[pair_group] & (rule.repeats | (asked > 1)[pair_group])
    pair_counts = picked.counts[order]
    which = _which(picked, order, union, low[pair_group])
    listed = told & (rule.repeats | (pair_counts < counts[pair_group]))
    stream = _core.encode_varints(
        np.concatenate(
            [
                degree,
                begin[filled] - np.concatenate([[0], end[filled][:-1]])[: filled.sum()],
                counts[filled],
                steps,
                leaps,
                pair_counts[told],
                which[np.repeat(listed, pair_counts)],
            ]
        )
    )
    if not rule.values(partition):
        return stream
    assert partition.edge_weight is not None
    return pack(stream, partition.edge_weight[union - partition.indptr[0]])


def _which(picked: Picked, order: Int, union: Int, low: Int) -> Int:
    """Of each pick, by pair in `order`: how far it is in its row's union from the one before."""
    counts = picked.counts[order]
    ptr = pointer(picked.counts)
    upto = pointer(counts)
    take = np.arange(upto[-1]) + np.repeat(ptr[:-1][order] - upto[:-1], counts)
    index = np.searchsorted(union, picked.edge[take]) - np.repeat(low, counts)
    steps: Int = np.diff(index, prepend=0)
    begins = upto[:-1][counts > 0]
    steps[begins] = index[begins]
    return steps


def _read_request(partition: Partition, request: Bytes) -> tuple[Array, Int, Keys]:
    given = (partition.first_row, partition.indptr, partition.indices)
    rows, batch, keys = _core.read_request(request, *given)
    return rows, pointer(np.bincount(batch, minlength=len(keys))), keys


def read_picks(
    partition: Partition, reply: Bytes, rule: PickRule, rows: Array, asked: Int
) -> Picked:
    """Reads the picks of (node, minibatch) pairs from the reply of the nodes' owner.

    Args:
        partition: describes the graph.
        reply: the message.
        rule: what was picked.
        rows: the distinct nodes, ascending.
        asked: int64, how many minibatches requested each.

    Raises:
        InputError: the reply is damaged.
    """
    value = None
    if rule.values(partition):
        reply, value = unpack(reply, np.uint8, np.float32)
    numbers = Numbers(reply)
    degree = numbers.take(len(rows))
    filled = degree > 0
    begin, counts = np.zeros_like(degree), np.zeros_like(degree)
    begin[filled] = numbers.take(int(filled.sum()))
    begin[filled] = np.cumsum(begin[filled]) + pointer(degree[filled])[:-1]
    counts[filled] = numbers.take(int(filled.sum()))
    ptr = pointer(counts)
    group = np.repeat(np.arange(len(rows)), counts)
    place = np.arange(ptr[-1]) - ptr[:-1][group]  # where all entries are there
    some = (counts < degree)[group]
    steps = numbers.take(int(some.sum())) + 1
    place[some] = _summed(steps, counts[counts < degree]) - 1
    sources = _summed(numbers.take(int(ptr[-1])), counts)
    pair_group = np.repeat(np.arange(len(rows)), asked)
    told = filled[pair_group] & (rule.repeats | (asked > 1)[pair_group])
    pair_counts = counts[pair_group]
    pair_counts[told] = numbers.take(int(told.sum()))
    listed = told & (rule.repeats | (pair_counts < counts[pair_group]))
    pair_ptr = pointer(pair_counts)
    index = np.arange(pair_ptr[-1]) - np.repeat(pair_ptr[:-1], pair_counts)
    inside = np.repeat(listed, pair_counts)
    index[inside] = _summed(numbers.take(int(inside.sum())), pair_counts[listed])
    numbers.end()
    union = index + np.repeat(ptr[:-1][pair_group], pair_counts)
    _check(partition, sources, union, ptr, value)
    edge = begin[group] + place
    return Picked(
        pair_counts,
        degree[pair_group],
        edge[union],
        sources[union].astype(partition.indices.dtype),
        None if value is None else value[union],
    )


def _summed(steps: Int, counts: Int) -> Int:
    """Running sums that restart with every piece."""
    total = np.cumsum(steps)
    begin = pointer(counts)[:-1]
    before = np.concatenate([[0], total])[begin]
    made: Int = total - np.repeat(before, counts)
    return made


def _check(partition: Partition, sources: Int, union: Int, ptr: Int, value: Array | None) -> None:
    wrong = len(union) and int(union.max()) >= int(ptr[-1])
    wrong = wrong or (value is not None and len(value) != int(ptr[-1]))
    if wrong or (len(sources) and int(sources.max()) >= partition.num_nodes):
        raise InputError("a reply holds an id that is not a node, or picks that do not exist")
