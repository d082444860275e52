"""cli: the command line; one module per command.

`graphs` has those of graph folders, `training` those of runs, `quickstart` the tour; `main` parses.
"""
