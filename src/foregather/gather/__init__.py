"""gather: moves the bytes: executors over memory, disk and remote ranks."""
