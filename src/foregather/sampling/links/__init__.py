"""links: what batches of links need of sampling: negatives, and edges that are left out."""
