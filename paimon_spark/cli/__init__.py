"""Command line: words → a command declared as data → calls of the library → text or JSON.

`commands/` declares what there is; the parser, the help, the shells' completion and the reference are made of it.
Nothing here imports pyspark, but for commands that need Spark, and nothing heavy is imported before a command runs.
"""
