"""forecast: what a cluster would send and take, before there is one."""
