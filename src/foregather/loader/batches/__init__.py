"""batches: what a batch holds, and how it is put together."""
