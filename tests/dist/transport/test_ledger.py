"""The ledger equals what the formulas say, computed from serial minibatches alone."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from foregather import Graph, InputError
from foregather.dist.forecast.rehearsal import blocks_of, rehearse
from foregather.dist.sampling.partition import cut_rows
from foregather.dist.sampling.row_picks import PickRule, answer_picks, pick_rows, read_picks
from foregather.dist.sampling.row_requests import inquiry_of
from foregather.dist.transport.ledger import Entry, Ledger, added, show, total
from foregather.sampling import Labor, Neighbor
from tests.dist import cases
from tests.some import some

OWNER_PICKS = [cases.SAMPLERS[name] for name in ("labor", "labor-dependent", *cases.BY_WEIGHT)]


def length(number):
    """Bytes of a number on the wire: 7 bits a byte."""
    return max(1, -(-int(number).bit_length() // 7))


def deltas(ids, first):
    """Bytes of ascending distinct ids, each as its distance from the smallest that may follow."""
    nexts = [first, *(i + 1 for i in ids)][: len(ids)]
    return sum(length(i - n) for i, n in zip(ids, nexts, strict=True))


@cache
def serial(bulk, rule, name="plain"):
    graph, batches = cases.graph(name), list(range(bulk))
    return cases.SAMPLERS[rule].sample_bulk(
        graph, cases.seeds(graph, batches), seed=cases.SEED, epoch=cases.EPOCH
    )


def frontier(sampler, sample, layer):
    begin = sample.num_nodes[layer - 1] if sampler.expand == "once" and layer else 0
    return sample.node[begin : sample.num_nodes[layer]].astype(np.int64)


def layer_edges(sample, layer):
    begin = sum(sample.num_edges[:layer])
    return sample.edge[begin : begin + sample.num_edges[layer]]


def expected(graph, sampler, samples, starts, own):
    """Request and reply bytes between a rank in grid row `own` and each owner, and messages."""
    found = {}
    for layer, fanout in enumerate(sampler.num_neighbors):
        fronts = [np.sort(frontier(sampler, s, layer)) for s in samples]
        picked = np.unique(np.concatenate([layer_edges(s, layer) for s in samples]))
        for owner in range(len(starts) - 1):
            low, high = int(starts[owner]), int(starts[owner + 1])
            asked = [ids[(ids >= low) & (ids < high)].tolist() for ids in fronts]
            distinct = sorted(set().union(*asked))
            if owner == own or not distinct:
                continue
            if fanout < 0:
                request = length(1) + length(len(distinct)) + deltas(distinct, low)
            else:
                request = length(len(samples)) + 8 * len(samples)
                request += sum(length(len(ids)) + deltas(ids, low) for ids in asked)
            if sampler in OWNER_PICKS and fanout >= 0:
                chosen = [np.sort(layer_edges(s, layer)) for s in samples]
                reply = picks_bytes(graph, sampler, asked, distinct, chosen)
            else:
                reply = reply_bytes(graph, sampler, fanout, asked, distinct, picked)
            sums = found.setdefault(owner, [0, 0, 0])
            sums[0] += request
            sums[1] += reply
            sums[2] += 1
    return found


def picks_bytes(graph, sampler, asked, distinct, chosen):
    """Of the picks that owners make by weight or by number; see row_picks."""
    repeats, sent, union_size, end = getattr(sampler, "replace", False), 0, 0, 0
    for v in distinct:
        begin, last = int(graph.indptr[v]), int(graph.indptr[v + 1])
        sent += length(last - begin)
        if begin == last:
            continue
        sent += length(begin - end)
        end = last
        own = [
            edges[(edges >= begin) & (edges < last)]
            for edges, ids in zip(chosen, asked, strict=True)
            if v in ids
        ]
        union = np.unique(np.concatenate(own))
        union_size += len(union)
        sent += length(len(union))
        if len(union) < last - begin:
            sent += deltas((union - begin).tolist(), 0)
        sent += sum(map(length, np.diff(graph.indices[union].astype(np.int64), prepend=0)))
        for edges in own if repeats or len(own) > 1 else []:
            sent += length(len(edges))
            if repeats or len(edges) < len(union):
                sent += sum(map(length, np.diff(np.searchsorted(union, edges), prepend=0)))
    weighs = isinstance(sampler, Labor) and graph.edge_weight is not None
    return sent + (16 + 4 * union_size if weighs else 0)


def reply_bytes(graph, sampler, fanout, asked, distinct, picked):
    reply, end = 0, 0
    for v in distinct:
        begin, last = int(graph.indptr[v]), int(graph.indptr[v + 1])
        reply += length(last - begin)
        if begin == last:
            continue
        reply += length(begin - end)
        end = last
        whole = fanout < 0 or (not sampler.replace and last - begin <= fanout)
        positions = np.arange(begin, last)
        if sampler in OWNER_PICKS:  # weights come along
            reply += 4 * len(positions)
        if not whole:
            positions = picked[(picked >= begin) & (picked < last)]
            if sampler.replace or sum(v in ids for ids in asked) > 1:
                reply += length(len(positions))
        reply += sum(map(length, np.diff(graph.indices[positions].astype(np.int64), prepend=0)))
    return reply


def formula(graph, sampler, samples_of, size, c):
    """By link and purpose: bytes and messages of a bulk, from the samples of each rank."""
    starts, layers = cut_rows(graph.indptr, size // c), len(sampler.num_neighbors)
    wanted = {}
    for rank in range(size):
        samples = samples_of(rank)
        row, column = divmod(rank, c)
        for peer in (i * c + column for i in range(size // c) if i != row):
            wanted[rank, peer, "lengths"] = (2 * 8 * layers, 2 * layers)
        if not samples:
            continue
        for owner, sums in expected(graph, sampler, samples, starts, row).items():
            peer = owner * c + column
            wanted[rank, peer, "rows: request"] = (sums[0], sums[2])
            wanted[peer, rank, "rows: reply"] = (sums[1], sums[2])
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 8])
def test_bytes_and_messages_are_the_formula(results, size):
    checked = dict.fromkeys(("uniform", "by owner"), 0)
    for (name, c, topology, bulk, rule), parts in some(results(size).items()):
        sampler = cases.SAMPLERS[rule]
        node_wise = isinstance(sampler, (Neighbor, Labor))
        if "wide" in name and sampler not in OWNER_PICKS:
            continue
        if topology != "owner" or name == "empty" or not node_wise:
            continue
        made = serial(bulk, rule, name)
        wanted = formula(
            cases.graph(name),
            sampler,
            lambda rank, made=made, bulk=bulk: [made[b] for b in cases.deal(bulk, size, rank)],
            size,
            c,
        )
        found = {
            (source, destination, purpose): (nbytes, messages)
            for part in parts
            for source, destination, purpose, nbytes, messages in part["ledger"]
        }
        assert found == wanted, (name, c, bulk, rule)
        checked["by owner" if sampler in OWNER_PICKS else "uniform"] += 1
    assert checked["uniform"] > 8 and checked["by owner"] > 6


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("rule", ["once", "labor", "labor-dependent", *cases.BY_WEIGHT])
def test_a_rehearsal_sends_what_ranks_send(results, size, rule):
    for (name, c, topology, bulk, other), parts in some(results(size).items()):
        if (topology, other) != ("owner", rule) or name == "empty":
            continue
        graph = cases.graph(name)
        blocks, sampler = blocks_of(graph, size // c), cases.SAMPLERS[rule]
        for rank in range(size):
            row, column = divmod(rank, c)
            batches = cases.deal(bulk, size, rank)
            seeds = cases.seeds(graph, batches)
            made, layers = rehearse(blocks, sampler, row, seeds, batches, cases.SEED, cases.EPOCH)
            assert len(made) == len(batches)
            for owner in range(size // c):
                peer = owner * c + column
                for place, link in (
                    ("sent", (rank, peer, "rows: request")),
                    ("got", (peer, rank, "rows: reply")),
                ):
                    total = sum(int(getattr(layer, place)[owner]) for layer in layers)
                    found = [
                        nbytes
                        for part in parts
                        for *where, nbytes, _ in part["ledger"]
                        if tuple(where) == link
                    ]
                    assert found == ([total] if total else []), (name, c, link)


@pytest.mark.parametrize("rule", ["labor", "labor-dependent", *cases.BY_WEIGHT, "numbers"])
def test_picks_are_fewer_bytes_than_rows(rule):
    """Against whole rows with their weights, on rows of 30 to 60 entries."""
    rng = np.random.default_rng(1)
    numbers = Neighbor([3, 2], weights=rng.random(600 * 45))  # given, not the graph's
    sampler = cases.SAMPLERS.get(rule, numbers)
    edges = rng.integers(0, 600, (2, 600 * 45))
    graph = Graph.from_edge_index(edges, 600, edge_weight=rng.random(len(edges[0]), np.float32))
    if rule in cases.BY_WEIGHT:
        sampler = replace(sampler, num_neighbors=[3, 2])
    seeds = [rng.integers(0, 600, 20) for _ in range(3)]
    sent = []
    for one in (sampler, type("Rows", (type(sampler),), {})(**options(sampler))):
        made, layers = rehearse(blocks_of(graph, 2), one, 0, seeds, [0, 1, 2], 5, 1)
        sent.append(sum(int(layer.sent.sum() + layer.got.sum()) for layer in layers))
        sent.append(made.digest)
    assert sent[1] == sent[3] == sampler.sample_bulk(graph, seeds, seed=5, epoch=1).digest
    assert 3 * sent[0] < sent[2], sent


def options(sampler):
    """What a sampler was made with."""
    return {f.name: getattr(sampler, f.name) for f in fields(sampler) if f.init}


def test_damaged_messages_are_refused():
    graph = cases.graph("weighted")
    block = blocks_of(graph, 2)[0]
    rule = PickRule(cases.SAMPLERS["by-weight"], 0)
    rows, keys = np.array([0, 3, 5], np.uint32), np.array([7], np.uint64)
    ptr, asked = np.array([0, 3]), np.ones(3, np.int64)
    request = inquiry_of(block, rows, ptr, keys, 1, False, 1).request(0)
    reply = answer_picks(block, request, rule)
    whole = read_picks(block, reply, rule, rows, asked)
    here = pick_rows(block, rule, rows, ptr, keys)
    assert np.array_equal(whole.edge, here.edge) and np.array_equal(whole.columns, here.columns)
    for cut in range(1, len(request)):
        with pytest.raises(InputError):
            answer_picks(block, request[:cut], rule)
    for cut in range(len(reply)):
        with pytest.raises(InputError):
            read_picks(block, reply[:cut], rule, rows, asked)
    with pytest.raises(InputError, match="longer"):
        read_picks(block, np.append(reply, np.uint8(1)), rule, rows, asked)
    with pytest.raises(InputError, match="owner does not have"):
        answer_picks(blocks_of(graph, 40)[0], request, rule)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 8])
def test_paper_mode_moves_whole_rows(results, size):
    """Rows of 4-byte columns, 12 bytes a row and 32 a message; ids of 4 bytes and 8 a message."""
    graph = cases.graph("plain")
    degree = np.diff(graph.indptr)
    for (name, c, topology, bulk, rule), parts in some(results(size).items()):
        if (name, topology, rule) != ("plain", "paper", "per-layer"):
            continue
        blocks = size // c
        starts, stages, wanted = cut_rows(graph.indptr, blocks), blocks // c, {}
        for rank in range(size):
            row, column = divmod(rank, c)
            ranks = [row * c + j for j in range(c)]
            batches = [b for r in ranks for b in cases.deal(bulk, size, r)]
            samples = [serial(bulk, rule)[b] for b in batches]
            for layer in range(3):
                fronts = [frontier(cases.SAMPLERS[rule], s, layer) for s in samples]
                needed = np.unique(np.concatenate([np.empty(0, np.int64), *fronts]))
                for q in range(column * stages, (column + 1) * stages):
                    if q == row:
                        continue
                    own = needed[(needed >= starts[q]) & (needed < starts[q + 1])]
                    root = q * c + column
                    asked = wanted.setdefault((rank, root, "A: needed rows"), [0, 0])
                    asked[0] += 8 + 4 * len(own)
                    asked[1] += 1
                    sent = wanted.setdefault((root, rank, "A: rows"), [0, 0])
                    sent[0] += 32 + 12 * len(own) + 4 * int(degree[own].sum())
                    sent[1] += 1
        found = {
            (source, destination, purpose): [nbytes, messages]
            for part in parts
            for source, destination, purpose, nbytes, messages in part["ledger"]
            if purpose.startswith("A: ")
        }
        assert found == wanted, (c, bulk)


def test_a_ledger_counts_neither_itself_nor_nothing():
    ledger = Ledger(1, ["rows"])
    assert ledger.snapshot() == {"rows": 0}
    ledger.note(1, "rows", 100)
    ledger.note(0, "rows", 0)
    assert ledger.entries() == {}
    ledger.note(0, "rows", 10)
    ledger.note(0, "rows", 5)
    ledger.note(2, "other", 7)
    entries = ledger.entries()
    assert entries[1, 0, "rows"] == Entry(15, 2)
    assert total(entries) == Entry(22, 3) and total(entries, ["other"]) == Entry(7, 1)
    assert ledger.snapshot() == {"rows": 15, "other": 7}
    assert "other" in show(entries)
    ledger.clear()
    assert ledger.entries() == {}


def test_tables_are_added_link_by_link():
    one = {(0, 1, "rows"): Entry(10, 1), (1, 0, "rows"): Entry(3, 2)}
    other = {(0, 1, "rows"): Entry(5, 4), (0, 1, "other"): Entry(7, 1)}
    both = {**one, **other, (0, 1, "rows"): Entry(15, 5)}
    assert added(one, other) == added(other, one) == both
    assert total(both).bytes == total(one).bytes + total(other).bytes
    assert one[0, 1, "rows"] == Entry(10, 1)  # the tables given stay as they are
