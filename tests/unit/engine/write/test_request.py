"""Names of the files of a write job, and removal of those of its failed tasks."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pyarrow as pa

import paimon_spark
from paimon_spark.engine.write.request import new_file_id, new_job
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WriteMode


def test_file_ids_are_uuids_of_their_job() -> None:
    job = new_job()
    ids = {new_file_id(job) for _ in range(100)}
    assert len(ids) == 100
    assert all(i.startswith(job) and UUID(i).version == 4 for i in ids)
    assert not new_file_id(None).startswith(job)
    assert new_job() != job


def test_files_of_unheard_tasks_go_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "dt": ["a", "b", "c"]})
    options = {"path": str(path), "primary-key": "id,dt", "partition": "dt"}  # dynamic buckets: index files too
    kept = plan_path_write(options, WriteMode.APPEND, rows.schema, lambda: row_type(rows.schema))
    kept.commit(kept.write(rows.to_batches()))

    def files() -> set[Path]:
        return {p for p in path.rglob("*") if p.is_file()}

    before = files()
    lost = plan_path_write(options, WriteMode.APPEND, rows.schema, lambda: row_type(rows.schema))
    lost.write(rows.to_batches())
    (path / "index" / f".index-{new_file_id(lost.job)}-0.{new_file_id(None)}.tmp").write_bytes(b"part")
    assert len(files()) > len(before) + 3
    lost.sweep()
    assert files() == before
    assert paimon_spark.load_table(str(path)).scan().to_arrow().num_rows == 3
