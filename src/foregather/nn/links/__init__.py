"""links: models that score pairs of nodes: encoders give rows, decoders compare them."""
