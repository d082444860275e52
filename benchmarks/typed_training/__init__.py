"""typed_training: what the benchmark of typed accuracy is made of: tasks, models, sides, runs."""
