"""Version control: tags, savepoints, branches, rollback, publishing, diff, log and doctor.

`metadata` reads tag and branch files; here are the operations, each planned as a `TableChange` under the table's lock
(`maintenance.change`). The methods of `api.Table` document their arguments and errors.

names.py          naming rules of tags and branches
tags.py           create, replace, rename, delete and expire tags
auto_tags.py      create tags on schedule
savepoints.py     compact a branch fully and tag the result
branches.py       create, rename and delete branches
undo.py           undo the newest operation on main that kept a backup; list and delete backups
tag_steps.py      steps for tags, guard tags and forks; guard tags of rebases
branch_state.py   BranchState: the refs in one branch's directory, and steps that write them
rollback.py       go back to a version, by deleting what is later or by a new snapshot
new_main.py       compute main's history after a branch is published
publish.py        read and check what publishing a branch as main needs
main_change.py    what main loses and gains by a publication, in snapshots and rows
merge.py          merge_branch and fast_forward: replace main's history by a branch's
replace_main.py   make `main` mean a branch, by the file MAIN-BRANCH
append_branch.py  commit the new files of one branch to another
diff.py           Diff: the differences between two versions, as values
compare.py        compute a Diff from metadata; relate two histories
status.py         TableStatus: head, branches, consumers and due maintenance; sizes of refs
log.py            History: commits of all branches as a graph
damage.py         checks for damage left by other engines, one function for each kind
inspected.py      Inspected: refs that were read once, for these checks
doctor.py         run all checks, and repair
"""
