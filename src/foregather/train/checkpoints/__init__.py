"""checkpoints: the state of training on disk, complete or absent."""
