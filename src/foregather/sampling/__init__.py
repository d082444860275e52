"""sampling: which vertices: the matrix framework and its samplers."""
