"""on_disk: typed graphs as folders of format version 2."""
