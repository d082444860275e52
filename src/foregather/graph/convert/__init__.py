"""convert: from what people already have to a graph folder, in bounded memory."""
