"""How values show themselves: texts and values in, HTML for notebooks out. Knows nothing of tables.

- `html.py`: sections, tables and lists of facts, escaped, for light and dark notebooks, without any script.
- `values.py`: results and lists that show themselves by their fields.
- `lanes.py`: a graph of lines that part, beside the rows of a table.
"""
