"""What keeps a table healthy.

compact.py     files of a bucket merged into fewer, committed as COMPACT
reachable.py   every file that some snapshot, tag, changelog or branch needs
"""
