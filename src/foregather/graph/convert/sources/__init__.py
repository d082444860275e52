"""sources: one Source class per supported input format."""
