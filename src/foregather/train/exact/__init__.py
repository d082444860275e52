"""exact: the parts of exact inference: what a layer needs, how rows are split, and the sweep."""
