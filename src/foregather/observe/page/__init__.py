"""page: what the self-contained pages of one run and of several consist of."""
