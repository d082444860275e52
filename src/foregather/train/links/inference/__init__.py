"""inference: what a finished run on links is used for: pairs, best targets, rows of nodes."""
