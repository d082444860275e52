"""Draws the diagrams of the pages anew: `python docs/drawings` writes docs/images/*.svg.

    python docs/drawings --out FOLDER

Nothing in them is measured; the figures of the README's drawing are those of docs/measured.md.
"""

import argparse
from pathlib import Path

from front import idea, three_figures
from pages import out_of_core, ranks, typed
from shapes import flow, full_graph, why

OUT = Path(__file__).parent.parent / "images"

DRAWINGS = {
    "idea": idea,
    "three_figures": three_figures,
    "why": why,
    "flow": flow,
    "full_graph": full_graph,
    "out_of_core": out_of_core,
    "ranks": ranks,
    "typed": typed,
}


def main() -> None:
    """Writes every drawing."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()
    for name, draw in DRAWINGS.items():
        (given.out / f"{name}.svg").write_text(draw(), encoding="utf-8")
    print(f"{len(DRAWINGS)} drawings in {given.out}")


if __name__ == "__main__":
    main()
