"""One write from plan to snapshot, in process: what becomes visible, what does not, what is left on disk."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction.plan import plan_after_write
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.engine.tasks import Increment
from paimon_spark.errors import (
    BranchNotFoundError,
    CommitConflictError,
    DataError,
    InvalidInputError,
    InvalidOptionError,
    PaimonError,
    SchemaMismatchError,
    TableNotFoundError,
)
from paimon_spark.jobs.upkeep import compaction as compact_written
from paimon_spark.jobs.write.batch import WriteJob, plan_path_write
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WriteMode
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import a_file
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_catalog, a_table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"], "dt": ["x", "y", "x"]})
KINDS: dict[str, dict[str, Any]] = {
    "unaware": {},
    "partitioned": {"partition": "dt"},
    "buckets": {"bucket": "2", "bucket-key": "id"},
    "keys": {"primary-key": "id", "bucket": "2"},
    "partitioned_keys": {"primary-key": "id,dt", "partition": "dt", "bucket": "2"},
    "dynamic": {"primary-key": "id"},
    "first_row": {"primary-key": "id", "bucket": "1", "merge-engine": "first-row"},
    "deletion_vectors": {"primary-key": "id", "bucket": "1", "deletion-vectors.enabled": "true"},
}


def plan(path: Path, rows: pa.Table = ROWS, mode: WriteMode = WriteMode.APPEND, **options: str) -> WriteJob:
    return plan_path_write({"path": str(path), **options}, mode, rows.schema, lambda: row_type(rows.schema))


def save(path: Path, rows: pa.Table = ROWS, mode: WriteMode = WriteMode.APPEND, **options: str) -> WriteResult:
    job = plan(path, rows, mode, **options)
    return job.commit(job.write(rows.to_batches()))


def overwrite(path: Path, rows: pa.Table, **options: str) -> WriteResult:
    return save(path, rows, WriteMode.OVERWRITE, **options)


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows = paimon_spark.load_table(str(path)).scan(**options).to_arrow().to_pylist()
    return sorted(rows, key=str)


def files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_table_is_made_and_written_to_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert save(path, **KINDS[kind]).snapshot_id == len(paimon_spark.load_table(str(path)).snapshots())
    assert read(path) == ROWS.to_pylist()
    more = pa.table({"id": pa.array([3, 4], pa.int64()), "v": ["C", "d"], "dt": ["x", "y"]})
    paimon_spark.load_table(str(path)).write(more)
    kept = {"id": 3, "v": "c", "dt": "x"}
    expected = ROWS.to_pylist() + more.to_pylist()
    if kind == "first_row":
        expected.remove({"id": 3, "v": "C", "dt": "x"})
    elif "primary-key" in KINDS[kind]:
        expected.remove(kept)
    assert read(path) == sorted(expected, key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_an_overwrite_leaves_only_its_rows(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path, **KINDS[kind])
    overwrite(path, ROWS.slice(1, 1))
    assert read(path) == ROWS.slice(1, 1).to_pylist()
    overwrite(path, ROWS.slice(0, 0))
    assert read(path) == []
    save(path)
    assert read(path) == ROWS.to_pylist()


@pytest.mark.parametrize("kind", ["partitioned", "partitioned_keys"])
def test_a_dynamic_overwrite_replaces_the_partitions_of_its_rows(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path, **KINDS[kind])
    overwrite(path, ROWS.slice(2, 1), partitionOverwriteMode="dynamic")
    assert read(path) == ROWS.slice(1, 2).to_pylist()
    assert overwrite(path, ROWS.slice(0, 0), partitionOverwriteMode="dynamic") == WriteResult()


@pytest.mark.parametrize("kind", ["partitioned", "partitioned_keys"])
def test_a_named_partition_is_replaced_and_fills_its_column(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path, **KINDS[kind])
    new = pa.table({"id": pa.array([9], pa.int64()), "v": ["n"]})
    overwrite(path, new, **{"overwrite.partition": "DT='x'"})
    assert read(path) == [{"id": 2, "v": "b", "dt": "y"}, {"id": 9, "v": "n", "dt": "x"}]
    before = files(path)
    with pytest.raises(PaimonError):
        overwrite(path, ROWS, **{"overwrite.partition": "dt=x"})  # has a row of partition y
    assert files(path) == before
    overwrite(path, new.slice(0, 0), **{"overwrite.partition": "dt=y"})
    assert read(path) == [{"id": 9, "v": "n", "dt": "x"}]


def test_a_partition_that_the_table_cannot_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path, ROWS.append_column("n", pa.array([1, 2, 3])), partition="n")
    with pytest.raises(InvalidOptionError, match=r"'m' is not a partition column .* partitioned by n"):
        overwrite(path, ROWS, **{"overwrite.partition": "m=1"})
    with pytest.raises(InvalidOptionError, match=r"overwrite\.partition: 'one' is not a value of"):
        overwrite(path, ROWS, **{"overwrite.partition": "n=one"})


def test_an_empty_append_makes_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert save(path, ROWS.slice(0, 0)) == WriteResult()
    assert read(path) == []
    assert WriteResult().snapshot_id is None


BAD: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "surplus column": (ROWS.append_column("more", pa.array([1, 2, 3])), {}),
    "missing key": (ROWS.drop_columns(["id"]), {}),
    "null key": (ROWS.set_column(0, "id", pa.array([1, None, 3], pa.int64())), {}),
    "null in NOT NULL": (ROWS.set_column(1, "v", pa.array(["a", None, "c"])), {}),
    "text to number": (ROWS.set_column(0, "id", pa.array(["1", "2", "3"])), {}),
    "fraction to integer": (ROWS.set_column(0, "id", pa.array([1.0, 2.0, 3.0])), {}),
    "integer that does not fit": (ROWS.set_column(3, "n", pa.array([1, 2, 1 << 40])), {}),
    "other primary key": (ROWS, {"primary-key": "v"}),
    "other partition": (ROWS, {"partition": "v"}),
    "other bucket": (ROWS, {"bucket": "7"}),
    "unknown option": (ROWS, {"buckett": "2"}),
    "wrong value": (ROWS, {"write-buffer-size": "much"}),
    "no such branch": (ROWS, {"branch": "fix"}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_nothing(case: str, tmp_path: Path) -> None:
    path = tmp_path / "wh" / "db.db" / "t"
    catalog = a_catalog(tmp_path / "wh")
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("v", pa.string(), False), pa.field("dt", pa.string()), ("n", pa.int32())]
    )
    catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "2"})
    save(path)
    before, rows = files(path), read(path)
    bad, options = BAD[case]
    with pytest.raises(PaimonError):
        save(path, bad, **options)
    assert files(path) == before
    assert read(path) == rows


def test_a_late_bad_row_leaves_no_file_of_the_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path, **KINDS["partitioned"])
    before = files(path)
    good = pa.table({"id": pa.array(range(300_000), pa.int64()), "v": ["v"] * 300_000, "dt": ["z"] * 300_000})
    reader = pa.RecordBatchReader.from_batches(
        good.schema, iter([*good.to_batches(), *good.slice(0, 1).set_column(0, "id", pa.array([2**40])).to_batches()])
    )
    table = paimon_spark.load_table(str(path))
    table.alter(set_options={"target-file-size": "100 kb"})

    def failing() -> Any:
        yield from reader
        raise RuntimeError("the rows end here")

    job = plan(path, good)
    with pytest.raises(RuntimeError, match="end here"):
        job.write(failing())
    assert {f for f in files(path) if not f.startswith("schema")} == {f for f in before if not f.startswith("schema")}


def test_a_table_that_a_failed_write_made_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    nulls = ROWS.set_column(0, "id", pa.array([1, None, 3], pa.int64()))
    job = plan(path, nulls, **keywords({"primary-key": "id", "bucket": "1"}))
    assert job.created
    assert path.exists()
    with pytest.raises(DataError):
        job.write(nulls.to_batches())
    job.abort(())
    assert not path.exists()


def test_a_table_made_stays_when_others_have_written_to_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    job = plan(path)
    save(path)
    job.abort(())
    assert read(path) == ROWS.to_pylist()


def test_a_table_made_stays_when_others_write_to_it_while_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    job = plan(path)

    class Late(LocalStore):
        def delete(self, path: str) -> None:
            if "/schema/" in path:
                save(Path(path).parents[1])
            LocalStore.delete(self, path)

    replace(job, handle=replace(job.handle, store=Late())).abort(())
    assert read(path) == ROWS.to_pylist()


def test_what_became_visible_before_a_commit_failed_stays(tmp_path: Path) -> None:
    job = plan(tmp_path / "t")
    messages = job.write(ROWS.to_batches())
    wrong = [replace(m, data=Increment(), compact=Increment(deleted_files=(a_file("never"),))) for m in messages]
    with pytest.raises(CommitConflictError, match=r"never.*made before"):
        job.commit([*messages, *wrong])
    assert read(tmp_path / "t") == ROWS.to_pylist()


@pytest.mark.parametrize("kind", ["deletion_vectors", "first_row"])
def test_a_write_needs_no_compaction_of_its_own_when_others_compact(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plan_tasks, others = tmp_path / "t", plan_after_write, iter(range(10, 18))

    def slowly(*arguments: Any) -> list[BucketTask]:
        tasks = plan_tasks(*arguments)
        with monkeypatch.context() as undone:
            undone.setattr(compact_written, "plan_after_write", plan_tasks)
            n = next(others)
            save(path, rows_with(n))
            save(path, rows_with(n + 100), **keywords({"write-only": "true"}))
        return tasks

    save(path, **KINDS[kind])
    monkeypatch.setattr(compact_written, "plan_after_write", slowly)
    save(path, rows_with(9))
    monkeypatch.undo()
    save(path, rows_with(8))
    assert {r["id"] for r in read(path)} == {1, 2, 3, 8, 9, 10, 110}


def rows_with(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "v": ["d"], "dt": ["x"]})


def test_no_table_is_made_of_a_bad_definition_on_a_branch_or_among_tables(tmp_path: Path) -> None:
    with pytest.raises(PaimonError):
        save(tmp_path / "t", **keywords({"primary-key": "nope"}))
    with pytest.raises(InvalidOptionError, match="'primary-key'"):
        save(tmp_path / "t", **keywords({"primary-kye": "id"}))
    with pytest.raises((TableNotFoundError, BranchNotFoundError)):
        save(tmp_path / "t", branch="fix")
    assert not (tmp_path / "t").exists()
    save(tmp_path / "t")
    with pytest.raises(InvalidInputError, match="folder of t"):
        save(tmp_path)


def test_options_of_one_write_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path)
    save(path, **keywords({"file.format": "avro"}))
    formats = {f.rpartition(".")[2] for f in files(path) if "bucket-0" in f}
    assert formats == {"parquet", "avro"}
    assert "file.format" not in paimon_spark.load_table(str(path)).schema.options
    assert len(read(path)) == 6


def test_a_write_may_repeat_the_definition_and_name_its_row_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t"
    kinds = ROWS.append_column("op", pa.array(["+I", "+I", "-D"]))
    save(path, kinds.slice(0, 0), **KINDS["keys"])
    save(
        path,
        kinds,
        **keywords({"primary-key": " id", "bucket": "2", "merge-engine": "deduplicate", "force-lookup": "false"}),
    )
    assert [r["id"] for r in read(path)] == [1, 2, 3]
    save(path, kinds, **keywords({"rowkind.field": "op"}))
    assert [r["id"] for r in read(path)] == [1, 2]


def test_a_table_made_keeps_its_options(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path, **keywords({"FILE.FORMAT": "orc", "write.merge-schema": "true", "fields.id.stats-mode": "none"}))
    assert paimon_spark.load_table(str(path)).schema.options == {"file.format": "orc", "fields.id.stats-mode": "none"}


def test_merge_schema_adds_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path)
    wider = pa.table({"w": [1.5], "id": pa.array([4], pa.int64())})
    with pytest.raises(SchemaMismatchError, match=r"write\.merge-schema"):
        save(path, wider)
    save(path, wider, **keywords({"write.merge-schema": "true"}))
    assert read(path)[-1] == {"id": 4, "v": None, "dt": None, "w": 1.5}


def test_a_column_that_cannot_be_added_names_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path)
    before = files(path)
    rows = ROWS.append_column("_SEQUENCE_NUMBER", pa.array([1, 2, 3]))
    with pytest.raises(InvalidInputError, match=f"table .*{path.name}.*_SEQUENCE_NUMBER"):
        save(path, rows, **keywords({"write.merge-schema": "true"}))
    assert files(path) == before


MAP = pa.map_(pa.string(), pa.int32())
BY_ROW = pa.map_(pa.struct([("x", pa.int32()), ("y", pa.string())]), pa.int32())
TWICE: dict[str, tuple[pa.DataType, Any, Any]] = {
    "map": (MAP, [("a", 1), ("b", 2)], [("a", 1), ("b", 2), ("a", 3)]),
    "inside": (pa.struct([("l", pa.list_(MAP))]), {"l": [[("a", 1)], [("a", 2)]]}, {"l": [[("a", 1), ("a", 1)]]}),
    "rows": (
        BY_ROW,
        [({"x": 1, "y": None}, 1), ({"x": None, "y": None}, 2)],
        [({"x": 1, "y": "k"}, n) for n in (1, 2)],
    ),
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", TWICE)
def test_a_key_twice_in_a_map_is_refused(tmp_path: Path, kind: str, file_format: str) -> None:
    data_type, good, bad = TWICE[kind]
    path = tmp_path / "t"
    save(path, pa.table({"m": pa.array([good, None, good], data_type)}), **keywords({"file.format": file_format}))
    before = files(path)
    rows = pa.table({"m": pa.array([bad, good, None, bad], data_type)}).slice(1)
    with pytest.raises(DataError, match=r"have a map with the key .* twice; nothing is written"):
        save(path, rows)
    assert files(path) == before
    save(path, rows.slice(0, 2))
    wanted = [{"m": value} for value in (good, None, good, good, None)]
    assert sorted(read(path), key=repr) == sorted(wanted, key=repr)


WIDER = pa.table({"id": pa.array([4], pa.int64()), "w": [1.5]})
MERGED: dict[str, Any] = keywords({"write.merge-schema": "true"})


@pytest.mark.parametrize("kind", ["unaware", "buckets", "keys", "deletion_vectors"])
def test_a_write_that_fails_adds_no_columns(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    save(path, **KINDS[kind])
    before = files(path)
    table = paimon_spark.load_table(str(path))

    def failing() -> Any:
        yield WIDER.to_batches()[0]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.write(pa.RecordBatchReader.from_batches(WIDER.schema, failing()), **MERGED)
    assert files(path) == before
    job = plan(path, WIDER, **MERGED)
    job.abort(job.write(WIDER.to_batches()))
    assert files(path) == before
    save(path, WIDER, **MERGED)
    assert read(path)[-1] == {"id": 4, "v": None, "dt": None, "w": 1.5}


def fails(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Check that `act` fails when its commit does."""

    def lost(*_: Any, **__: Any) -> Any:
        raise CommitConflictError("another commit won")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", lost)
        with pytest.raises(CommitConflictError, match="another commit won"):
            act()


def test_a_commit_that_fails_takes_its_columns_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    save(path)
    table = paimon_spark.load_table(str(path))
    columns, rows = table.row_type, read(path)
    for count in (1, 2):
        fails(monkeypatch, lambda: save(path, WIDER, **MERGED))
        found = paimon_spark.load_table(str(path)).schema
        assert (found.row_type, found.id, read(path)) == (columns, 2 * count, rows)
    save(path, WIDER, **MERGED)
    assert read(path)[-1]["w"] == 1.5
    ids = [f.id for f in paimon_spark.load_table(str(path)).row_type]
    assert len(set(ids)) == len(ids) and ids[-1] == ids[-2] + 3  # ids are never given out again


def test_columns_that_another_write_uses_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    save(path)
    failing, other = (plan(path, WIDER, **MERGED) for _ in range(2))
    files_of = [job.write(WIDER.to_batches()) for job in (failing, other)]
    first = failing.with_changes(files_of[0])  # makes the columns
    ready = other.with_changes(files_of[1])  # another write finds them, before either has committed
    fails(monkeypatch, lambda: first.commit(files_of[0]))
    ready.commit(files_of[1])
    assert [r["w"] for r in read(path)][-1] == 1.5


def test_columns_that_were_taken_back_are_a_conflict_for_who_planned_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    save(path)
    failing, other = (plan(path, WIDER, **MERGED) for _ in range(2))
    files_of = [job.write(WIDER.to_batches()) for job in (failing, other)]
    fails(monkeypatch, lambda: failing.commit(files_of[0]))
    with pytest.raises(CommitConflictError, match="the schema of"):
        other.commit(files_of[1])
    assert len(read(path)[0]) == 3


def test_two_writes_that_add_the_same_column_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(path)
    jobs = [plan(path, WIDER, **MERGED) for _ in range(2)]
    messages = [job.write(WIDER.to_batches()) for job in jobs]
    for job, written in zip(jobs, messages, strict=True):
        job.commit(written)
    assert [r["w"] for r in read(path)] == [None, None, None, 1.5, 1.5]
    assert paimon_spark.load_table(str(path)).schema.id == 1


@pytest.mark.parametrize("later", [{}, {"add": {"y": "STRING"}}])
def test_a_write_whose_column_another_has_added_differently_commits_nothing(tmp_path: Path, later: Any) -> None:
    path = tmp_path / "t"
    save(path)
    job = plan(path, WIDER, **MERGED)
    messages = job.write(WIDER.to_batches())
    table = paimon_spark.load_table(str(path))
    table.alter(add={"w": "STRING"})
    if later:
        table.alter(**later)
    before = files(path)
    with pytest.raises(CommitConflictError, match="was changed while rows with new columns"):
        job.commit(messages)
    assert len(read(path)) == 3
    assert files(path) < before


@pytest.mark.parametrize(
    "options",
    [{"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}, {"merge-engine": "first-row"}],
)
def test_columns_added_and_filled_meanwhile_outlive_the_compaction(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = ROWS.select(["id", "v"])
    save(path, rows.slice(0, 0), **{"primary-key": "id", "bucket": "1", **options})
    job = plan(path, rows.slice(1, 1))
    messages = job.write(rows.slice(1, 1).to_batches())
    paimon_spark.load_table(str(path)).alter(add={"z": "INT"})
    around = pa.table({"id": pa.array([1, 3], pa.int64()), "v": ["a", "c"], "z": pa.array([7, 8], pa.int32())})
    save(path, around)
    job.commit(messages)
    assert read(path) == [{"id": 1, "v": "a", "z": 7}, {"id": 2, "v": "b", "z": None}, {"id": 3, "v": "c", "z": 8}]


def test_a_write_goes_to_the_branch_of_the_table(tmp_path: Path) -> None:
    import shutil

    from tests.harness.golden import golden_path

    path = tmp_path / "t"
    shutil.copytree(golden_path("branches"), path)
    main, branch = paimon_spark.load_table(str(path)), paimon_spark.load_table(f"{path}$branch_from_tag")
    rows = branch.scan().to_arrow()
    before, heads = main.scan().to_arrow(), len(main.snapshots())
    assert branch.write(rows, mode="overwrite").snapshot_id == branch.snapshots()[-1].id
    assert main.write(rows, branch="from_tag").snapshot_id == branch.snapshots()[-1].id
    assert main.scan().to_arrow().equals(before)
    assert len(main.snapshots()) == heads


def test_a_version_is_not_written_to(tmp_path: Path) -> None:
    save(tmp_path / "t")
    with pytest.raises(InvalidInputError, match="opened at version '1'"):
        paimon_spark.load_table(str(tmp_path / "t")).at(1).write(ROWS)


def test_rows_come_in_many_shapes(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "t"
    save(path, ROWS.slice(0, 0))
    table = paimon_spark.load_table(str(path))

    class Stream:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return ROWS.__arrow_c_stream__(requested_schema)

    for data in (ROWS, ROWS.to_batches()[0], ROWS.to_reader(), ROWS.to_pandas(), Stream()):
        table.write(data)
    assert isinstance(ROWS.to_pandas(), pd.DataFrame)
    assert len(read(path)) == 15
    with pytest.raises(InvalidInputError, match=r"found builtins\.list"):
        table.write([{"id": 1}])
    with pytest.raises(InvalidInputError, match="expected append or overwrite"):
        table.write(ROWS, mode="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="sets the location of a table"):
        table.write(ROWS, path="/elsewhere")


def test_a_job_travels_small(tmp_path: Path) -> None:
    job = plan(tmp_path / "t", **KINDS["keys"])
    assert len(pickle.dumps(job)) < 4000
    sent: WriteJob = pickle.loads(pickle.dumps(job))
    messages = pickle.loads(pickle.dumps(sent.write(ROWS.to_batches())))
    assert sent.commit(messages).snapshot_id == 1
    assert read(tmp_path / "t") == ROWS.to_pylist()


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-50, 50), st.one_of(st.none(), st.text(max_size=3))), max_size=60),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([{"bucket": "3"}, {}, {"dynamic-bucket.target-row-num": "5"}]),
)
def test_tasks_that_share_buckets_keep_the_latest_row_of_each_task(
    tasks: list[list[tuple[int, str | None]]], options: dict[str, Any]
) -> None:
    """Tasks of one write have no order among them, but rows of one task do, and a key is never there twice."""
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "t"
        schema = pa.schema([("id", pa.int32()), ("v", pa.string())])
        tables = [
            pa.table({"id": pa.array([r[0] for r in t], pa.int32()), "v": pa.array([r[1] for r in t], pa.string())})
            for t in tasks
        ]
        job = plan(path, schema.empty_table(), **{"primary-key": "id", **options})
        messages = [m for n, t in enumerate(tables) for m in job.write(t.to_batches(), n, shares_buckets=True)]
        job.commit(messages)
        found = {r["id"]: r["v"] for r in read(path)}
        last = [dict(t) for t in tasks]
        assert len(read(path)) == len(found)
        assert set(found) == {k for t in last for k in t}
        assert all(any(t.get(k, ...) == v for t in last) for k, v in found.items())


def test_the_directory_of_a_branch_is_neither_read_nor_written(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    table = a_table(rows.schema, where=tmp_path)
    table.write(rows)
    table.create_branch("fix")
    path = tmp_path / "db.db" / "t" / "branch" / "branch-fix"
    hint = rf"give the path of the table, '{tmp_path}/db.db/t', with option\(\"branch\", \"fix\"\)"

    with pytest.raises(InvalidOptionError, match=hint):
        paimon_spark.load_table(str(path))
    with pytest.raises(InvalidOptionError, match=hint):
        plan(path, rows)
