"""disk: batches whose rows or neighbour lists are read from disk by plan."""
