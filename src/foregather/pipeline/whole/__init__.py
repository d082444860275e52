"""whole: exact epochs on one rank: pieces of the nodes, stretches of layers, rows on disk."""
