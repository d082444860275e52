"""train: uses the batches: Loader, fit, evaluate, inference, checkpoint."""
