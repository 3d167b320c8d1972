"""Values that cross between processes: picklable, frozen, without clients or open files.

split.py           DataSplit: files of one bucket to read together (scan → read)
read_request.py    ReadRequest: what to make of splits: columns, predicate, schemas (scan → read)
output.py          which columns a read gives, and their types
commit_message.py  CommitMessage: what a writer of one bucket did (write → commit)
"""
