"""typed: the drop-in NeighborLoader for PyG's HeteroData, and for data with times."""
