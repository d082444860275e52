"""common: what benchmark scripts share: reports and cgroups."""
