"""nodes: tables of nodes, read and joined to the graph that the edges make."""
