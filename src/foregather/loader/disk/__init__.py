"""disk: batches whose rows or neighbour lists are read from disk according to a plan."""
