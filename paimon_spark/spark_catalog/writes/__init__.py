"""Writes that Spark plans.

staged_table.py  CREATE and REPLACE TABLE AS SELECT: a table that is made with its rows
write.py         writes of DataFrames and streams, and the sources of their rows for lineage
"""
