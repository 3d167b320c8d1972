"""Arrow arrays: canonical types, and conversions from and to numpy and Python."""
