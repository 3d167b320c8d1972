"""Options: text in, frozen groups out. One descriptor per key; nothing below this package sees option text.

descriptor.py   Option, its types (durations, sizes, enums…), unknown keys and the nearest name
table.py        what a table stores about itself that shapes reading: TableOptions
scan.py         what a read asks for: ScanOptions (version, columns, where, limits…)
location.py     where tables live: warehouse, file system credentials
"""
