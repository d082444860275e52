"""integrity: checks of everything that is read: block checksums, verify, valid topologies."""
