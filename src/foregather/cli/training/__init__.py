"""training: commands that train, go on with a run, infer with its model and report on it."""
