"""TODO: what engine is for."""
