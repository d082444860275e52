"""pyg: typed graphs from and to the data objects of PyG."""
