"""databases: tables of SQLite and DuckDB, read by their catalogue and never written to."""
