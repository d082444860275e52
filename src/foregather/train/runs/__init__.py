"""runs: one folder per run: created, trained to its end, resumed, and scored by every edge."""
