"""Words of Iceberg and Delta Lake, and what to use here instead.

    words of a user → instead_of_statement | _call | _table | _option | _property | _guarantee → text of an error

statements.py  statements and clauses, metadata tables of Iceberg and its names of versions
procedures.py  calls of Iceberg's procedures
options.py     options of reads and writes, and table properties

Errors and warnings of all entrances come from here, and the page "Coming from Iceberg or Delta Lake", by
`documented_statements` and its like. Code in texts is in backquotes, which errors leave out.
"""
