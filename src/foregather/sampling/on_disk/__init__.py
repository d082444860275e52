"""on_disk: samplers that look at whole neighbour lists, which are read from disk by plan."""
