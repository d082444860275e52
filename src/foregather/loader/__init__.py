"""loader: from seeds to batches: the Loader and the sources of its batches."""
