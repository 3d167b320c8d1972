"""Values that cross process boundaries: frozen, picklable, without clients or open files.

split.py           DataSplit and ReadRequest: the files that one reading task reads, and how (scan → read)
output.py          the columns that a read returns, and their types
commit_message.py  CommitMessage: the files that a writer of one bucket wrote (write → commit)
"""
