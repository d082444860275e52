"""stores: graphs in the sockets that PyG calls FeatureStore and GraphStore, and loaders of both."""
