"""source: reads what the project is written in, for tests about it."""
