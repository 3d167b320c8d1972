"""TODO: what sql.commands is for."""
