"""Tags and branches: ALTER TABLE … CREATE TAG and its kin, SHOW TAGS, SHOW BRANCHES.

grammar.py       text → statements.py
run.py           what changes tags and branches
show.py          what lists them
"""
