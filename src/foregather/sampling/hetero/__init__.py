"""hetero: samplers of graphs with node types, relations and times, and what they make."""
