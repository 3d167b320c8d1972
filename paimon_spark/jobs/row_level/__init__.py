"""Changes of single rows, one commit each.

write.py   RowLevelWrite: the new and deleted rows of a DELETE, UPDATE or MERGE
delete.py  DELETE by a condition, which can run without Spark, and of whole partitions
"""
