"""The command line: words → an operation and its arguments → text or JSON.

Nothing here imports pyspark, except for commands that need Spark, and nothing heavy is imported before a command runs.
"""
