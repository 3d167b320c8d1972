"""Stores: files by path, over local disk, HDFS and fsspec. Knows nothing of Paimon.

store.py         Store: the interface; files as Arrow reads and writes them; what stores share
local.py         LocalStore: the file system of this machine; its symbolic links, which are not followed
hdfs.py          HdfsStore: HDFS, through hdfs-native
fsspec_store.py  FsspecStore: any fsspec file system
fsspec_write.py  creating, moving and deleting files there
clients.py       arguments of the clients of object stores, and what their errors mean
urls.py          the store of a URL, and RetryingStore
"""
