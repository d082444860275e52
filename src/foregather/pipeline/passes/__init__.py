"""passes: how chunks go through layers, forward and backward."""
