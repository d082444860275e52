"""baselines: cache policies to compare with; each makes the same kind of plan."""
