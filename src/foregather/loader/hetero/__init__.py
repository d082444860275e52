"""hetero: from graphs with node types, relations and times to batches; in memory."""
