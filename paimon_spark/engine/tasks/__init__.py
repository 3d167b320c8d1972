"""Values that cross process boundaries: frozen, picklable, without clients or open files.

split.py           DataSplit and ReadRequest: the files that one task reads, how, and into which columns (scan → read)
commit_message.py  CommitMessage: the files that a writer of one bucket wrote (write → commit)
"""
