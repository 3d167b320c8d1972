"""Find damage that other engines left in snapshots, tags and branches, and repair what loses nothing.

diagnose.py   run all checks, and repair
checks.py     one function for each kind of damage
findings.py   Finding and Case: what a check returns
"""
