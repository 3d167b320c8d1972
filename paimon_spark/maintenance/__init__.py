"""What keeps a table healthy.

compact.py     level 0 of buckets made visible: CommitMessages of a COMPACT snapshot
pick.py        which files, and into which level; bucket_merge.py merges them, bucket_vectors.py their deletion vectors
reachable.py   every file that some snapshot, tag, changelog or branch needs
orphans.py     files in a table's directories that nothing reachable names
file_paths.py  where the files of many manifest entries lie
"""
