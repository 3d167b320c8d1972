"""System tables, such as `t$snapshots` and `t$files`, as Arrow batches.

Columns, types and order are those of Paimon 2.0, followed by the columns of the proposals.

registry.py    system tables by name
listing.py     Listing: a system table that is made from metadata
history.py     $snapshots $schemas $options $aggregation_fields $tags $branches $savepoints $consumers
               $manifests $table_indexes $statistics
files.py       $files $file_key_ranges $partitions $buckets
views.py       $audit_log $binlog $ro $row_tracking: the table's rows, planned and read as any read
java_text.py   values as the text that Java makes of them
"""
