"""trainers: the two ways to train: on sampled batches, or on the full graph."""
