"""TODO: what sql.grammar is for."""
