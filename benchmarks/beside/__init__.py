"""beside: the parts of `peers.py`: which systems are here, their turns, and the work of a cell."""
