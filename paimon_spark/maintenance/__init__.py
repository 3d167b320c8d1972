"""What is needed, what is not, and how it goes: everything that deletes files passes here.

roots.py       every snapshot, tag and changelog of every branch: what holds on to files
changes.py     TableChange: what an operation does to refs, as steps that can be repeated
intents.py     one change at a time on a table; written down first, finished by whoever comes next
lock.py        who may change refs now, and who takes over from a dead owner
owner.py       who is at work on a table's refs, and whether they still are
running.py     the steps of a change, run
removal.py     files that only released roots need: counted, and deleted
alive.py       which files are alive in some of many states, by what the states do not share
lists.py       which manifests roots name
reachable.py   every file that some snapshot, tag, changelog or branch needs
orphans.py     files in a table's directories that nothing reachable names, found and removed
purge.py       a table without rows, history, tags and branches
file_paths.py  where the files of many manifest entries lie
retention.py   which snapshots and changelogs have lived long enough; pure
expire_snapshots.py, expire_changelogs.py   they go, with what nothing else needs
expire_partitions.py   old partitions are dropped by a commit; partition_time.py: the time that their values name
consumers.py   who reads a branch as a stream, and what it has yet to read
"""
