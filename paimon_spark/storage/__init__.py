"""Storage: files by path, nothing of Paimon. The only package that imports fsspec.

store.py         Store: the verbs everything else uses, and FileInfo
fsspec_store.py  Store over any fsspec file system; local files are read through Arrow directly
urls.py          which store and path a URL means
retrying.py      a Store that repeats idempotent calls
"""
