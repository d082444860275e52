"""pipeline: full-graph training in stages: chunks, schedule, engine, planner."""
