"""on_disk: a graph as a folder: array files, meta.json, and how a folder is written."""
