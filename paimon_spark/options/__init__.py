"""Options: text in, frozen groups out. One descriptor per key; nothing below this package sees option text.

descriptor.py   Option, its types (durations, sizes, enums…), unknown keys and the nearest name
table.py        what a table stores about itself that shapes reading: TableOptions
scan.py         what a read asks for: ScanOptions (version, columns, where, limits…)
stream_read.py  what a streaming read asks for: StreamReadOptions; stream_keys.py has its options one by one
in_force.py     options given over those that the table stores
location.py     where tables live: warehouse, file system credentials
tags.py         time to live of tags; tags and savepoints made by themselves
expiry.py      how long snapshots, changelogs, consumers and partitions live: ExpiryOptions
"""
