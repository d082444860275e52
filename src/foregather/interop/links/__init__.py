"""links: PyG's link loaders over loaders of ours."""
