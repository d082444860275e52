"""description: what a TOML file or the catalogue of a database says about types and relations."""
