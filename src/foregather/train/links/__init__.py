"""links: runs that learn which nodes are linked: data, models, candidates, scores, retrieval."""
