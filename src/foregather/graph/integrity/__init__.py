"""integrity: nothing is believed unchecked: block checksums, verify, sound topologies."""
