"""train: uses the batches: runs, their settings, fit, evaluate, inference, checkpoints."""
