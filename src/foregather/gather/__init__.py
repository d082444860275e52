"""gather: executors that move feature rows from memory and disk."""
