"""TODO: what metadata.journal is for."""
