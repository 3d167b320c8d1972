"""Values of one Paimon type as another, exactly as Java casts them. On Arrow arrays; knows no files.

Used where old files are read as a newer schema, and where the text of a default becomes a value.

casts.py  which cast, by source and target type
text.py   from and to text       time.py  between dates, times and timestamps
"""
