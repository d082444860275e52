"""graph: what exists: topology, features, labels and splits, in memory or in a folder."""
