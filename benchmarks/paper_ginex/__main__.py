"""__main__: prints the figures as text; names choose some of them.

cd benchmarks && python -m paper_ginex [--quick] [NAME ...]
"""

import argparse
import time

from common.facts import Facts

from . import FIGURES

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("names", nargs="*")
parser.add_argument("--quick", action="store_true", help="small sizes, one round")
given = parser.parse_args()
for draw in FIGURES:
    if not given.names or draw.__name__ in given.names:
        begin = time.monotonic()
        made = draw(Facts(), given.quick)
        print(f"\n## {made.title}\n\n{made.setting}\n")
        for row in [made.columns, ["---"] * len(made.columns), *made.rows]:
            print("| " + " | ".join(row) + " |")
        print(f"\nShape: {made.holds}. {made.explanation}")
        print(f"({time.monotonic() - begin:.0f} s)", flush=True)
