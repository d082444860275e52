"""checkpoints: the state of training on disk, whole or not there."""
