"""Storage: files by path, nothing of Paimon. The only package that imports fsspec.

store.py         Store: the verbs everything else uses, and FileInfo
local.py         Store over the machine's own file system, read through Arrow directly
no_replace.py    a local file gets its name only where nothing has it
fsspec_store.py  Store over any fsspec file system; what its failures mean
range_file.py    a remote file as Arrow sees it
slice.py         a part of a file as a file of its own
s3.py            Paimon's and Hadoop's S3 settings in s3fs' words
retrying.py      a Store that repeats idempotent calls
urls.py          which store and path a URL means
"""
