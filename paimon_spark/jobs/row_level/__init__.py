"""Changes of single rows, one commit each.

row_level.py  DELETE, UPDATE and MERGE; a DELETE can run without Spark
"""
