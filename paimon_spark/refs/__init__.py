"""Refs: names that mean a snapshot.

version.py     version text and options as VersionSpec; pure
timestamp.py   timestamp text as epoch milliseconds; pure
tags.py        tags of a branch
auto_tags.py   names of tags made by time; pure
savepoints.py  savepoints: tags named by their snapshot
branches.py    branches of a table
resolve.py     VersionSpec → branch, snapshot and the schema to read it with
ranges.py      the two ends of an incremental read
"""
