"""Storage: files by path, nothing of Paimon. The only package that imports fsspec.

store.py         Store: the verbs everything else uses, and FileInfo
local.py         Store over the machine's own file system, read through Arrow directly
no_replace.py    a local file gets its name only where nothing has it
fsspec_store.py  Store over any fsspec file system; what its failures mean
fsspec_write.py  how those file systems make, move and remove files
range_file.py    a remote file as Arrow reads it
output_file.py   a file as Arrow writes it
slice.py         a part of a file as a file of its own
s3.py            settings of S3 in s3fs' words, conditional writes, bulk deletes
retrying.py      a Store that repeats calls that do no harm twice
urls.py          which store and path a URL means
"""
