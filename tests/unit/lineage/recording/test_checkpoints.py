"""Checkpoints of Spark as provenance: offset logs as its releases write them, and where they lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CorruptFileError, FileMissingError, PaimonError
from paimon_spark.jobs.lineage_port import QueryRun
from paimon_spark.lineage.index.provenance import SourceRange, TableRef
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.lineage.recording.checkpoints import (
    Checkpoint,
    decode_ends,
    find_checkpoint,
    open_checkpoint,
    range_between,
    source_ranges,
    split_table_url,
)
from paimon_spark.metadata.small_files import numbered
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.urls import open_store
from paimon_spark.streaming.offset import Part, Phase, StreamOffset, encode
from tests.harness.fault_store import FaultStore

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795356565541,"conf":{"spark.sql.shuffle.partitions":"1"}}'
A, B = TableRef("db", "a"), TableRef("db", "b")
WAREHOUSE = Warehouse(LocalStore(), "/wh")
QUERY = "1dbe1589-6f32-4eb1-91bf-574a879a73a1"

_UNPLANNED = '"part": {"phase": "state", "units": 0, "of": 0, "digest": ""}'
_A3 = (
    '"version": 1, "table": "file:///wh/db.db/a", "branch": "main", "snapshot": 3, '
    '"made": "manifest-list-4b-0", "rows": 3'
)
_B3 = (
    '"version": 1, "table": "file:///wh/db.db/b", "branch": "main", "snapshot": 3, '
    '"made": "manifest-list-b4-0", "rows": 3'
)
_A4 = (
    '"version": 1, "table": "file:///wh/db.db/a", "branch": "main", "snapshot": 4, '
    '"made": "manifest-list-4c-0", "rows": 4'
)
_A3_PART = '"part": {"phase": "state", "units": 1, "of": 3, "digest": "1fc3d5e49d850c1f"}'
_A3_PART_2 = '"part": {"phase": "state", "units": 2, "of": 3, "digest": "1fc3d5e49d850c1f"}'
_A_BEGAN = f'"start": {{{_A3}, {_UNPLANNED}}}'
_B_BEGAN = f'"start": {{{_B3}, {_UNPLANNED}}}'

# A union of the tables a and b and of a rate source; then a row came to a. 4.1 and 4.3 write the same lines.
FORMAT_1 = (
    f'v1\n{METADATA}\n{{{_A3}, {_A_BEGAN}}}\n{{{_B3}, {_B_BEGAN}}}\n{{"offset":1,"timestamp":1000}}',
    f'v1\n{METADATA}\n{{{_A4}}}\n{{{_B3}, {_B_BEGAN}}}\n{{"offset":2,"timestamp":2000}}',
)
# The same under spark.sql.streaming.offsetLog.formatVersion = 2, of 4.3.
FORMAT_2 = (
    f'v2\n{METADATA}\n1:{{{_B3}, {_B_BEGAN}}}\n0:{{{_A3}, {_A_BEGAN}}}\n2:{{"offset":1,"timestamp":1000}}',
    f'v2\n{METADATA}\n1:{{{_B3}, {_B_BEGAN}}}\n2:{{"offset":2,"timestamp":2000}}\n0:{{{_A4}}}',
)
# 4.3, read.stream.maxRowsPerTrigger = 1: a state in three batches.
IN_PARTS = (
    f"v1\n{METADATA}\n{{{_A3}, {_A3_PART}, {_A_BEGAN}}}",
    f"v1\n{METADATA}\n{{{_A3}, {_A3_PART_2}}}",
    f"v1\n{METADATA}\n{{{_A3}}}",
)


def checkpoint(root: Path, *logs: str, query_id: str = QUERY) -> Checkpoint:
    """A directory as Spark leaves it, with the checksums of its local file system."""
    for number, text in enumerate(logs):
        for folder, content in (("offsets", text), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / str(number)).write_text(content)
            (root / folder / f".{number}.crc").write_bytes(b"crc\0")
    root.mkdir(parents=True, exist_ok=True)
    (root / "metadata").write_text(json.dumps({"id": query_id}))
    return open_checkpoint(LocalStore(), str(root))


def sources(found: Checkpoint, batch_id: int) -> tuple[SourceRange, ...]:
    """What a batch read."""
    now = found.ends(batch_id)
    return source_ranges(found.ends_before(batch_id), now, WAREHOUSE)


def offset(snapshot: int | None, part: Part | None = None, table: str = "a", branch: str = "main") -> StreamOffset:
    return StreamOffset(f"file:///wh/db.db/{table}", branch, snapshot, "m" if snapshot else None, None, part)


def log(*ends: Any) -> str:
    lines = [end if isinstance(end, str) else json.dumps(encode(end)) for end in ends]
    return "\n".join(["v1", METADATA, *lines])


@pytest.mark.parametrize("logs", [FORMAT_1, FORMAT_2])
def test_each_batch_says_how_far_each_paimon_source_was_read(logs: tuple[str, ...], tmp_path: Path) -> None:
    found = checkpoint(tmp_path, *logs)
    assert found.query_id() == QUERY
    for folder in ("offsets", "commits"):
        assert numbered(found.store, f"{found.root}/{folder}", "") == [0, 1]
    assert sources(found, 0) == (SourceRange(A, last=3), SourceRange(B, last=3))
    assert sources(found, 1) == (SourceRange(A, after=3, last=4), SourceRange(B, after=3, last=3))


def test_a_state_read_in_parts_counts_as_read_when_all_of_it_is(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, *IN_PARTS)
    assert sources(found, 0) == (SourceRange(A, within=3),)
    assert sources(found, 1) == (SourceRange(A, within=3),)
    assert sources(found, 2) == (SourceRange(A, last=3),)


CHANGES, STATE = (Part(phase, 1, 3, "d") for phase in (Phase.CHANGES, Phase.STATE))
NOT_YET = Part(Phase.STATE, 0, 0, "")


@pytest.mark.parametrize(
    ("start", "end", "after", "last", "within"),
    [
        (None, offset(7), None, 7, None),
        (offset(None), offset(None), None, None, None),
        (offset(None), offset(4), None, 4, None),
        (offset(None), offset(4, STATE), None, None, 4),
        (offset(0), offset(0), 0, 0, None),
        (offset(0), offset(1, CHANGES), 0, 0, 1),
        (offset(0), offset(2), 0, 2, None),
        (offset(5), offset(5), 5, 5, None),
        (offset(5), offset(8), 5, 8, None),
        (offset(5), offset(8, CHANGES), 5, 7, 8),
        (offset(8, CHANGES), offset(8, Part(Phase.CHANGES, 2, 3, "d")), 7, 7, 8),
        (offset(8, CHANGES), offset(8), 7, 8, None),
        (offset(8, CHANGES), offset(9), 7, 9, None),
        (offset(8, NOT_YET), offset(8, NOT_YET), None, None, None),
        (offset(8, NOT_YET), offset(8, STATE), None, None, 8),
        (offset(8, STATE), offset(8), None, 8, None),
        (offset(8, STATE), offset(11), None, 11, None),
    ],
)
def test_what_lies_between_two_offsets(
    start: StreamOffset | None, end: StreamOffset, after: int | None, last: int | None, within: int | None
) -> None:
    assert range_between(start, end, WAREHOUSE) == SourceRange(A, after=after, last=last, within=within)


def test_sources_are_named_relative_to_the_warehouse_of_the_sink() -> None:
    def ref(table: str, branch: str = "main", sink: str = "/wh") -> SourceRange | None:
        return range_between(None, StreamOffset(table, branch, 1, "m"), Warehouse(LocalStore(), sink))

    assert ref("file:///wh/db.db/a", "fix") == SourceRange(TableRef("db", "a$branch_fix"), last=1)
    assert ref("file:///other/wh/db.db/a") == SourceRange(A, "file:///other/wh", last=1)
    assert ref("s3://bucket/db.db/a") == SourceRange(A, "s3://bucket", last=1)
    assert ref("file:///a b/it's.db/t.x") == SourceRange(TableRef("it's", "t.x"), "file:///a b", last=1)
    assert ref("file:///data/a") == SourceRange(None, location="file:///data/a", last=1)
    assert ref("file:///data/a", "fix") == SourceRange(None, location="file:///data/a$branch_fix", last=1)
    assert ref("file:///wh/paimon.db/source_job_lineage") is None


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sftp://me:pw@host/wh", "sftp://me@host/wh"),
        ("sftp://:pw@host:22/wh", "sftp://@host:22/wh"),
        ("hdfs://nn:8020/user/me@corp/wh", "hdfs://nn:8020/user/me@corp/wh"),
        ("abfss://box@account.dfs/wh", "abfss://box@account.dfs/wh"),
        ("file:///a:b@c/wh", "file:///a:b@c/wh"),
    ],
)
def test_no_password_is_written_down(url: str, told: str) -> None:
    def named(table: str) -> SourceRange | None:
        return range_between(None, StreamOffset(table, "main", 1, "m"), WAREHOUSE)

    assert named(f"{url}/db.db/a") == SourceRange(A, told, last=1)
    assert named(f"{url}/a") == SourceRange(None, location=f"{told}/a", last=1)


def test_the_path_of_a_table_tells_its_warehouse() -> None:
    assert split_table_url("hdfs://nn:8020/wh/db.db/t") == ("hdfs://nn:8020/wh", "db", "t")
    for outside in ("file:///t", "file:///db.db/t", "s3://db.db/t", "file:///wh/.db/t", "file:///wh/db/t", "t", ""):
        assert split_table_url(outside)[0] is None


def test_a_branch_read_twice_counts_as_far_as_its_slowest_reader_came() -> None:
    before = decode_ends(log(offset(3), offset(2), offset(9, table="b")).encode(), "o")
    now = decode_ends(log(offset(6), offset(5, CHANGES), offset(9, table="b"), offset(4, branch="x")).encode(), "o")
    assert source_ranges(before, now, WAREHOUSE) == (
        SourceRange(A, after=2, last=4, within=5),
        SourceRange(TableRef("db", "a$branch_x"), last=4),
        SourceRange(B, after=9, last=9),
    )
    state = decode_ends(log(offset(6), offset(6, STATE)).encode(), "o")
    assert source_ranges(None, state, WAREHOUSE) == (SourceRange(A, within=6),)


def test_sources_that_are_no_paimon_tables_are_passed_over() -> None:
    lines = [
        "-",
        "51",
        '{"logOffset":0}',
        '{"topic":{"0":12}}',
        "[1]",
        '"x"',
        "not json",
        "",
        '{"version":1,"table":5}',
    ]
    ends = decode_ends(log(*lines, offset(2)).encode(), "o")
    assert source_ranges(None, ends, WAREHOUSE) == (SourceRange(A, last=2),)
    assert source_ranges(None, decode_ends(log().encode(), "o"), WAREHOUSE) == ()


def test_a_source_that_first_has_an_offset_later_says_where_it_began() -> None:
    before = decode_ends(log("-").encode(), "o")
    now = decode_ends(log(json.dumps({**encode(offset(5)), "start": encode(offset(1))})).encode(), "o")
    assert source_ranges(before, now, WAREHOUSE) == (SourceRange(A, after=1, last=5),)


def test_an_end_of_another_table_is_no_start() -> None:
    before = decode_ends(log(offset(9, table="b")).encode(), "o")
    assert source_ranges(before, decode_ends(log(offset(2)).encode(), "o"), WAREHOUSE) == (SourceRange(A, last=2),)


def test_starts_go_on_where_a_warehouse_was_moved() -> None:
    before = decode_ends(log(offset(9)).encode(), "o")
    moved = StreamOffset("file:///new/wh/db.db/a", "main", 11, "m")
    found = source_ranges(before, decode_ends(log(moved).encode(), "o"), Warehouse(LocalStore(), "/new/wh"))
    assert found == (SourceRange(A, after=9, last=11),)


@pytest.mark.parametrize("data", [b"", b"v1", b"v3\n{}\n{}", b"v\n{}", b"{}\n{}", b"\xff\xfe\n\n"])
def test_a_file_that_spark_did_not_write_so_is_an_error_that_names_it(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="file:///chk/offsets/4"):
        decode_ends(data, "file:///chk/offsets/4")


def test_a_batch_whose_predecessor_was_purged_still_says_where_it_ended(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, *FORMAT_1)
    (tmp_path / "offsets" / "0").unlink()
    assert sources(found, 1) == (SourceRange(A, last=4), SourceRange(B, last=3))
    with pytest.raises(FileMissingError):
        sources(found, 0)


def test_a_batch_costs_one_read_and_the_one_before_another(tmp_path: Path) -> None:
    checkpoint(tmp_path, *FORMAT_1)
    store = FaultStore(LocalStore())
    sources(Checkpoint(store, str(tmp_path)), 1)
    assert [c.verb for c in store.calls] == ["read", "read"]


def find(tmp_path: Path, **where: str | None) -> str:
    run = QueryRun(QUERY, where.get("query_name"), where.get("given"), where.get("configured"))
    return find_checkpoint(LocalStore(), run).root.removeprefix(str(tmp_path) + "/")


def test_the_checkpoint_is_the_querys_own(tmp_path: Path) -> None:
    checkpoint(tmp_path / "own", *FORMAT_1)
    checkpoint(tmp_path / "conf" / "etl", *FORMAT_1)
    checkpoint(tmp_path / "conf" / "other", *FORMAT_1, query_id="another")
    for given in (str(tmp_path / "own"), f"file:{tmp_path}/own", f"file://{tmp_path}/own/"):
        assert find(tmp_path, given=given, configured=str(tmp_path / "conf")) == "own"
    assert find(tmp_path, configured=str(tmp_path / "conf"), query_name="etl") == "conf/etl"
    assert find(tmp_path, configured=f"file://{tmp_path}/conf", query_name="gone") == "conf/etl"
    assert find(tmp_path, configured=str(tmp_path / "conf"), query_name="other") == "conf/etl"
    assert find(tmp_path, given=str(tmp_path / "none"), configured=str(tmp_path / "conf")) == "conf/etl"


def test_a_checkpoint_that_is_not_found_says_where_it_was_looked_for(tmp_path: Path) -> None:
    checkpoint(tmp_path / "conf" / "other", query_id="another")
    (tmp_path / "conf" / "broken").mkdir()
    (tmp_path / "conf" / "broken" / "metadata").write_text("{")
    with pytest.raises(FileMissingError, match="conf"):
        find(tmp_path, configured=str(tmp_path / "conf"))
    with pytest.raises(FileMissingError, match="names one"):
        find(tmp_path)
    with pytest.raises(PaimonError):
        find(tmp_path, given="nosuchscheme://x/y")


def test_the_look_below_a_directory_of_checkpoints_is_bounded(tmp_path: Path) -> None:
    for number in range(250):
        checkpoint(tmp_path / f"{number:03}", query_id=f"q{number}")
    store = FaultStore(LocalStore())
    with pytest.raises(FileMissingError):
        find_checkpoint(store, QueryRun(QUERY, "x", checkpoint_conf=str(tmp_path)))
    reads = [c for c in store.calls if c.verb == "read"]
    assert len(reads) <= 201


def test_checkpoints_lie_in_any_store() -> None:
    store, root = open_store("memory://chk/etl")
    store.write(f"{root}/metadata", json.dumps({"id": QUERY}).encode())
    store.write(f"{root}/offsets/0", FORMAT_1[0].encode())
    found = find_checkpoint(LocalStore(), QueryRun(QUERY, checkpoint="memory://chk/etl"))
    assert [s.last for s in sources(found, 0)] == [3, 3]
    assert open_checkpoint(LocalStore(), "s3a://bucket/chk").url == "s3://bucket/chk"
    assert sources(open_checkpoint(LocalStore(), found.url), 0) == sources(found, 0)


def test_one_slash_after_the_scheme_is_enough(tmp_path: Path) -> None:
    assert (
        open_checkpoint(LocalStore(), "memory:/chk/one").url == open_checkpoint(LocalStore(), "memory:///chk/one").url
    )
    assert open_checkpoint(LocalStore(), f"file:{tmp_path}").root == str(tmp_path)
