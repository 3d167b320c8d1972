"""What is known of a table, as tables: `t$snapshots`, `t$files` and their kin (README, System tables).

In comes an opened branch, sometimes a version of it; out come Arrow batches with the columns, types and order of
Paimon 2.0, and after them the columns of the proposals.

listing.py     Listing: one system table; Asked: what a read of it wants
registry.py    name → system table
history.py     $snapshots $schemas $options $aggregation_fields
references.py  $tags $branches $savepoints $consumers
files.py       $files $file_key_ranges          file_texts.py  their keys and statistics as text
totals.py      $partitions $buckets
manifests.py   $manifests $table_indexes $statistics
views.py       $audit_log $binlog $ro $row_tracking: the table's own rows, planned and read as any read
packing.py     rows of a changelog as the arrays of $binlog
java_text.py   values as the text that Java makes of them
"""
