"""Links: negatives and edges that are left out, against slow, obvious Python."""
