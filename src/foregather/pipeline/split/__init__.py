"""A model that is any module, as layers for full-graph training: recorded, cut, and checked."""
