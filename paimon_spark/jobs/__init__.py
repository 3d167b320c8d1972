"""TODO: what jobs is for."""
