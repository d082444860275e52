"""partition: chunks of nodes, their edges, and the rows each way holds."""
