"""Compare two versions of a table row by row, reading only what differs.

versions.py  the files of two versions that differ, and their rows
compare.py   the rows of two versions compared, or merged three ways
"""
