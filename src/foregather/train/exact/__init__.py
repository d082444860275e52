"""exact: the parts of exact inference: what a layer needs, how rows are cut, and the sweep."""
