"""Refs: names that mean a snapshot.

version.py     version text and options as VersionSpec; pure
timestamp.py   timestamp text as epoch milliseconds; pure
tags.py        tags of a branch; tag_infos.py as they are listed
auto_tags.py   names of tags made by time; pure
savepoints.py  savepoints: tags named by their snapshot
branches.py    branches of a table
forks.py       where a branch left another: recorded, or derived from what both share
guards.py      names of the tags that keep the bases of branches; pure
resolve.py     VersionSpec → branch, snapshot and the schema to read it with
ranges.py      the two ends of an incremental read
"""
