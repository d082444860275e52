"""synthetic: typed graphs made from a recipe, for tests and benchmarks."""
