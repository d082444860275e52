"""sources: what people already have, each as one Source."""
