"""subgraphs: samplers whose minibatches are induced subgraphs: random walks and GraphSAINT."""
