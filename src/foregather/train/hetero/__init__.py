"""hetero: training and inference on graphs with node types, relations and times; in memory."""
