"""DELETE, UPDATE and MERGE: rows of files replaced, by deletion vectors or by rewriting the files."""
