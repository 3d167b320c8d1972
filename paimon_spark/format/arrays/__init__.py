"""TODO: what format.arrays is for."""
