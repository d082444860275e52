"""baselines: cache policies for comparison; each makes the same kind of plan."""
