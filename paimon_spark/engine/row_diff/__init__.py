"""Compare two versions of a table row by row, reading only what differs."""
