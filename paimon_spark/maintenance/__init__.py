"""What keeps a table healthy.

compact.py     files of a bucket merged into fewer, committed as COMPACT
reachable.py   every file that some snapshot, tag, changelog or branch needs
orphans.py     files in a table's directories that nothing reachable names
file_paths.py  where the files of many manifest entries lie
"""
