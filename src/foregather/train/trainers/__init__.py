"""trainers: what one epoch is: of sampled batches, the full graph, typed graphs or links."""
