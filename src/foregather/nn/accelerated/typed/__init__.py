"""typed: accelerated passes over batches with several types of nodes and relations."""
