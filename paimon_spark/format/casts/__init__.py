"""Conversion of values between types, on Arrow arrays, by policy.

assignment.py, nested_assignment.py  rows to write, of any Arrow type, to a column's type: Spark's store assignment
evolution.py     changed column types: which changes are allowed, and old values cast as Java does
conformance.py   arrays of a data file's library to canonical arrays, and those to what Spark takes
text.py, timestamps.py  conversions that the others share
"""
