"""observe: what is happening and what happened: progress, the machine, counters, plots.

This room knows nothing of graphs; every other room may import it.
"""
