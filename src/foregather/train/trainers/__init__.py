"""trainers: two ways to train that a run can carry through: sampled batches, the full graph."""
