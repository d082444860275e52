"""links: scores of pairs, the best targets of every source, and what they are worth."""
