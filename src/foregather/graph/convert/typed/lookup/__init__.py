"""lookup: finds nodes by the ids that tables call them by, and keeps those ids."""
