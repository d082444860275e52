"""observe: progress bars, machine facts, disk calibration, traces, reports and plots.

This room knows nothing about graphs; every other room may import it.
"""
