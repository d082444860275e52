"""baselines: the published way to sample and fetch over ranks, for comparison."""
