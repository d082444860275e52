"""hetero: models for graphs with node types, relations and times, by name; built on PyG."""
