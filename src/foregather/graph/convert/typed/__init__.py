"""typed: tables of nodes and edges of several types, described in TOML, become a typed graph."""
