"""Tables with long histories, for figures of expiry and cleaning: real metadata, data files of a few bytes."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import KEYED, ROWS, a_file, committer, compaction, make_table, message


def make_history(root: Path, files: int, snapshots: int, replaced: int = 10) -> TableHandle:
    """A table of `files` data files; each snapshot but the first replaces some of them. Made once."""
    done = root / "history-done"
    if not done.exists():
        table = make_table(LocalStore(), str(root), KEYED)
        bucket = root / "bucket-0"
        bucket.mkdir()
        alive = [a_data_file(i) for i in range(files)]
        for file in alive:
            (bucket / file.file_name).write_bytes(b"PAR1")
        commits = committer(table)
        commits.commit([message(table, *alive)])
        for n in range(1, snapshots):
            at = n * replaced % (files - replaced)
            old = alive[at : at + replaced]
            new = [f._replace(file_name=f"data-{n:06d}-{f.file_name[-16:]}") for f in old]
            for file in new:
                (bucket / file.file_name).write_bytes(b"PAR1")
            commits.commit([compaction(table, old, new)])
            alive[at : at + replaced] = new
        done.write_text("done")
    return open_table(LocalStore(), str(root), name="t")


def a_data_file(i: int) -> DataFileMeta:
    """A file with statistics, as writers make them."""
    types = [field.type for field in ROWS]
    low, high = (binary_row.encode([1, 10 * i + n, f"value {10 * i + n:012d}"], types) for n in (0, 9))
    file = a_file(f"data-{i:08d}.parquet", keys=(10 * i, 10 * i + 9), level=5)
    keys = SimpleStats(file.min_key, file.max_key, (0,))
    return file._replace(key_stats=keys, value_stats=SimpleStats(low, high, (0, 0, 0)))
