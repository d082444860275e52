"""links: from links that are asked about to batches around their two ends."""
