"""tasks: what a run learns: the loss, the columns of scores, the labels that fit, the baseline."""
