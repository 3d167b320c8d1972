"""Changes of the definition of one table.

alter.py    Table.alter: schema changes from its arguments
replace.py  REPLACE TABLE: another definition without rows
"""
