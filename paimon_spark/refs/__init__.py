"""refs."""
