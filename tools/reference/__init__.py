"""The pages of docs/reference, made from the code: what it states → Markdown.

text.py            tables and cells
options.py         option descriptors → options.md
system_tables.py   the columns of system tables → system-tables.md
procedures.py      the registry of procedures → procedures.md
command_line.py    the declared commands → command-line.md
python_api.py      signatures and docstrings of the public names → python-api.md
errors.py          the tree of errors → errors.md
"""
