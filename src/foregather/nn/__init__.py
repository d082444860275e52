"""nn: models as lists of layers, in plain torch."""
