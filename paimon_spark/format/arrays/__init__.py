"""Arrow arrays: the types that rows have in this package, and conversions from and to numpy and Python."""
