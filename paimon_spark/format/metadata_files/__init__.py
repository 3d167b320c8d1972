"""TODO: what format.metadata_files is for."""
