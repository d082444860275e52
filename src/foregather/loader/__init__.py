"""loader: from seeds to batches: Loader, and what makes its batches."""
