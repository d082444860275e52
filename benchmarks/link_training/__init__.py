"""Link training: cells of accuracy on links: by foregather, and by PyG's loaders or models."""
