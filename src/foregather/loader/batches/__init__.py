"""batches: the contents of a batch, and how it is assembled."""
