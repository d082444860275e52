"""Do the papers' figures come out here, in shape, on a small machine?

Runs the figures of the three papers, scaled to this machine, and writes docs/papers/figures.md with
a plot and a table each: what was published, on what hardware, what came out here, in which setting,
and whether the shape holds. Each figure's facts are kept in benchmarks/results as soon as they are
measured; the page, its sentences and its verdicts are made from them whenever it is written.

    python benchmarks/paper.py [--paper mbs gnnpipe ginex] [--quick] [--only NAME ...]
    python benchmarks/paper.py --continue      # goes on after a run that was cut
    python benchmarks/paper.py --redraw        # the page, from what is kept
    python benchmarks/paper.py --list
"""

import argparse
import sys
import time
from pathlib import Path

from common import results
from common.facts import Facts
from common.figures import Draw
from common.paper_page import write_page
from common.report import machine_line
from common.results import figures_of
from common.skip import Skipped

PAGE = Path(__file__).parents[1] / "docs/papers/figures.md"


def measure(name: str, draw: Draw, quick: bool) -> bool:
    """Measures a figure and keeps it; whether it could be done on this machine."""
    began = time.monotonic()
    print(f"== {name}", flush=True)
    machine, facts = machine_line(), Facts()  # its load is that before the run
    try:
        figure = draw(facts, quick)
    except Skipped:
        print(f"== {name} stays as it is", flush=True)
        return False
    took = time.monotonic() - began
    results.save(figure, quick, took, facts.known, machine)
    print(f"== {name}: {figure.holds}, after {took:.0f} s", flush=True)
    return True


def main() -> int:
    """Measures what is asked for, then writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", nargs="+", choices=results.PAPERS, default=results.PAPERS)
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours")
    parser.add_argument("--only", nargs="+", help="names of figures, see --list")
    parser.add_argument("--continue", dest="resume", action="store_true", help="after a cut run")
    parser.add_argument("--redraw", action="store_true", help="measure nothing")
    parser.add_argument("--list", action="store_true", help="names of figures")
    given = parser.parse_args()
    if given.redraw:
        write_page(PAGE)
        return 0
    named = {f"{paper}/{n}": draw for paper in given.paper for n, draw in figures_of(paper).items()}
    if given.list:
        print("\n".join(named))
        return 0
    if given.only:
        short = {name.partition("/")[2]: name for name in named}
        if unknown := [one for one in given.only if one not in short and one not in named]:
            parser.error(f"no figure is called {unknown[0]}; --list names them")
        wanted = {short.get(one, one) for one in given.only}
        named = {name: draw for name, draw in named.items() if name in wanted}
    run = results.Unfinished(given.quick, given.resume)
    for name, draw in named.items():
        if name not in run.done:
            measure(name, draw, given.quick)
            run.note(name)
    run.end()
    write_page(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
