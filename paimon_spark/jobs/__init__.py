"""Jobs that read and write tables, and the maintenance that follows a commit."""
