"""memory: how `memory=` is divided: budgets, layouts, storage modes."""
