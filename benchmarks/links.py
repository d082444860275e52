"""links: what does a batch of links cost, compared with a batch of nodes and with PyG's?

Systems take turns at epochs over the same links of the same graph, in one run; nothing is done with
a batch. Nodes and edges a batch stand beside each time, so that equal work can be seen. Section
`nodes` sets `LinkLoader` beside `Loader` with the same seeds: the ends of links and negatives are
the whole difference (bar: at most 1.3 times); `small` does the same where batches are so small that
Python is most of the work. Section `links` sets it beside PyG's LinkNeighborLoader with pyg-lib and
no, one or two workers (bar: 8 times, by the best of these); ours draws negatives that are no links
and leaves the links of a batch out of its edges, which PyG does not do; rows without both are
beside it. `bare` is the same without feature rows, as where nodes have embeddings. Times and ratios
are medians (least to most) over rounds, ratios paired by round: how many times as long as ours the
other takes.

    FOREGATHER_PYG_LIB     a library with pyg-lib's sampler, where the package pyg_lib is not there

    python benchmarks/links.py [--quick] [--only nodes small links bare] [--rounds 7] [--append]
"""

import argparse
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from beside.found import find_peers
from beside.graphs import make_case
from beside.links import measure_links, measure_nodes, measure_small
from beside.rounds import HEAD, Row, keep
from common.report import Report

SECTIONS = ("nodes", "small", "links", "bare")
LEAST_ROUNDS = 5  # fewer make no report

made_once = cache(make_case)


def measure(section: str, folder: Path, rounds: int, quick: bool) -> list[Row]:
    """The rows of a section."""
    peers = find_peers(wants_dgl=False)
    nodes, edges = (20_000, 300_000) if quick else (1_000_000, 15_000_000)
    name = "20k nodes, 300k edges" if quick else "1M nodes, 15M edges"
    batches, size = (4, 64) if quick else (32, 256)
    if section == "small":
        case = make_case("2.7k nodes, 10k edges", folder, 2_700, 10_000)
        return [row for few in (8, 64) for row in measure_small(case, rounds, few)]
    case = made_once(name, folder, nodes, edges)
    if section == "nodes":
        return measure_nodes(case, rounds, batches, size)
    for sentence in peers.missing:
        if sentence.startswith("pyg-lib"):
            print(f"left out: {sentence}", flush=True)
    if section == "bare":
        case = replace(case, name=f"{name}, no features", features=False)
    return measure_links(section, case, peers, rounds, batches, size)


def main() -> int:
    """Measures what was asked for, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small graphs, two rounds, no report")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--append", action="store_true", help="keep other sections of the report")
    given = parser.parse_args()
    rounds = 2 if given.quick else given.rounds
    if rounds < LEAST_ROUNDS and not given.quick:
        parser.error(f"a report needs at least {LEAST_ROUNDS} rounds; --quick takes two")
    report = Report("links", __doc__)
    with tempfile.TemporaryDirectory() as made:
        rows = [row for one in given.only for row in measure(one, Path(made), rounds, given.quick)]
    if given.quick:
        print("Bars are for the sizes of a whole run, not for these.")
        return 0
    report.line(f"{rounds} rounds after one that warms up; peers: {find_peers(False).versions()}.")
    report.table(HEAD, keep(rows, report.path, SECTIONS) if given.append else rows)
    report.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
