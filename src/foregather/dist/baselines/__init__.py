"""baselines: the published way to sample and fetch over ranks, to compare with."""
