"""Link training: cells of accuracy on links, by foregather's runs and by PyG's loaders or models."""
