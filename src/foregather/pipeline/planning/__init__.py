"""planning: which scheme, stages, ways and chunks; schedule, simulation, volume."""
