"""memory: what `memory=` is spent on: budgets, layouts, ways to store a graph."""
