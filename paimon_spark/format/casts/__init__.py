"""Conversion of values between types, on Arrow arrays, by policy.

assignment.py, nested_assignment.py  rows to write, of any Arrow type, to a column's type: Spark's store assignment
evolution.py     values of a column's old type as its new type, as Java casts them
conformance.py   arrays of a data file's library to canonical arrays, and those to what Spark takes
type_changes.py  which column types may become which
text.py, timestamps.py  conversions that the others share
"""
