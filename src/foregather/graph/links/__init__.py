"""links: pairs of nodes that are to be predicted, in a graph, in its folder, and cut out of it."""
