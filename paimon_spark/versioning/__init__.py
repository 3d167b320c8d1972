"""Version control: what creates, moves and takes away tags, savepoints and branches.

Each verb plans under `maintenance.intents.change_table` and leaves the doing to it.

names.py        what a tag or branch may be called; pure
tags.py         create, replace, rename, delete; tag_expiry.py ends them, auto_tags.py makes them by itself
tag_steps.py    tags as steps of a change; tag_source.py what a tag is made of
savepoints.py   a full compaction and its tag
rollback.py     back to a version; restoring.py makes its state the newest instead
reopening.py    the branch as it is once nobody else changes refs
branches.py     create, rename, delete
guarding.py     guard tags along the history of a branch, as steps
line.py         what a branch's directory holds, as values; staging.py lays that down, or over another, as steps
published.py    what becomes of main when a branch is published; pure. publication.py reads what it takes
merge.py        a branch becomes main's history; what that discards is kept as a branch
late_commits.py     commits of other engines that landed on main in that moment
replace_main.py     MAIN-BRANCH
splices.py      whether one snapshot was made on another
append_branch.py    new files of a branch committed to another
doctor/         what other engines left, and what can be mended
diff.py         two versions told apart, as values; comparing.py finds them by changed_files.py, changed_columns.py
relation.py     what two histories share, and how far each went since
status.py       how a table stands, as values; standing.py finds them
history.py      commits of all branches as a graph, as values; walking.py reads them
"""
