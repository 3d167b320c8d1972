"""What other engines left behind, told and, where nothing can be lost, mended.

diagnose.py    the entry: what is left over, then every other module's look at every branch
findings.py    what is told, as values, and what is looked at
files.py, bases.py, histories.py, schemas.py, ambiguous.py    one kind of harm each
"""
