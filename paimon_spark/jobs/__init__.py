"""Jobs that read and write tables in this process or in Spark, and the maintenance that follows a commit."""
