"""fileformat."""
