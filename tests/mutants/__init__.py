"""Planted bugs: mutations of one place, and a command that runs the tests that should notice."""
