"""graphs: commands that make, describe, check and cut graph folders."""
