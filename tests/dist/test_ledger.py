"""The ledger equals what the formulas say, computed from serial minibatches alone."""

from functools import cache

import numpy as np
import pytest
from dist import cases

from foregather.dist.ledger import Entry, Ledger, show, total
from foregather.dist.partition import cut_rows
from foregather.sampling import Neighbor


def length(number):
    """Bytes of a number on the wire: 7 bits a byte."""
    return max(1, -(-int(number).bit_length() // 7))


def deltas(ids, first):
    """Bytes of ascending distinct ids, each as its distance from the smallest that may follow."""
    nexts = [first, *(i + 1 for i in ids)][: len(ids)]
    return sum(length(i - n) for i, n in zip(ids, nexts, strict=True))


@cache
def serial(bulk, rule):
    graph, batches = cases.graph("plain"), list(range(bulk))
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
            reply = reply_bytes(graph, sampler, fanout, asked, distinct, picked)
            sums = found.setdefault(owner, [0, 0, 0])
            sums[0] += request
            sums[1] += reply
            sums[2] += 1
    return found


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
        if not whole:
            positions = picked[(picked >= begin) & (picked < last)]
            if sampler.replace or sum(v in ids for ids in asked) > 1:
                reply += length(len(positions))
        reply += sum(map(length, np.diff(graph.indices[positions].astype(np.int64), prepend=0)))
    return reply


@pytest.mark.parametrize("size", [2, 4, 8])
def test_bytes_and_messages_are_the_formula(results, size):
    graph = cases.graph("plain")
    checked = 0
    for (name, c, topology, bulk, rule), parts in results(size).items():
        sampler = cases.SAMPLERS[rule]
        if name != "plain" or topology != "owner" or not isinstance(sampler, Neighbor):
            continue
        starts, layers = cut_rows(graph.indptr, size // c), len(sampler.num_neighbors)
        wanted = {}
        for rank in range(size):
            batches = cases.deal(bulk, size, rank)
            samples = [serial(bulk, rule)[b] for b in batches]
            row, column = divmod(rank, c)
            peers = [i * c + column for i in range(size // c) if i != row]
            for peer in peers:
                wanted[rank, peer, "lengths"] = (2 * 8 * layers, 2 * layers)
            if not samples:
                continue
            for owner, sums in expected(graph, sampler, samples, starts, row).items():
                peer = owner * c + column
                wanted[rank, peer, "rows: request"] = (sums[0], sums[2])
                wanted[peer, rank, "rows: reply"] = (sums[1], sums[2])
        found = {
            (source, destination, purpose): (nbytes, messages)
            for part in parts
            for source, destination, purpose, nbytes, messages in part["ledger"]
        }
        assert found == wanted, (c, bulk, rule)
        checked += 1
    assert checked > 8


@pytest.mark.parametrize("size", [2, 4, 8])
def test_paper_mode_moves_whole_rows(results, size):
    """Rows of 4-byte columns, 12 bytes a row and 32 a message; ids of 4 bytes and 8 a message."""
    graph = cases.graph("plain")
    degree = np.diff(graph.indptr)
    for (name, c, topology, bulk, rule), parts in results(size).items():
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
    ledger = Ledger(1)
    ledger.note(1, "rows", 100)
    ledger.note(0, "rows", 0)
    assert ledger.entries() == {}
    ledger.note(0, "rows", 10)
    ledger.note(0, "rows", 5)
    ledger.note(2, "other", 7)
    entries = ledger.entries()
    assert entries[1, 0, "rows"] == Entry(15, 2)
    assert total(entries) == Entry(22, 3) and total(entries, ["other"]) == Entry(7, 1)
    assert "other" in show(entries)
    ledger.clear()
    assert ledger.entries() == {}
