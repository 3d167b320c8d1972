"""Notes of a sink on a branch: read back as written, and errors for those that cannot be understood."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, InvalidInputError, UnknownFormatVersionError
from paimon_spark.streaming.batches import (
    LastBatch,
    SinkLog,
    SnapshotKey,
    decode_sink_log,
    encode_sink_log,
    read_sink_log,
    sink_log_path,
    write_sink_log,
)
from tests.harness.tables import MetadataTable

PLACES = st.none() | st.builds(SnapshotKey, st.integers(1, 2**62), st.text(min_size=1))
LOGS = st.builds(
    SinkLog,
    st.text(min_size=1),
    st.text(min_size=1),
    st.integers(0, 2**62),
    st.booleans(),
    PLACES,
    st.lists(st.text(min_size=1), max_size=3).map(tuple),
    st.none() | st.builds(LastBatch, st.integers(0, 2**62), PLACES),
)
LOG = SinkLog("q", "me", 7, True, SnapshotKey(3, "made"), ("job",), LastBatch(6, SnapshotKey(2, "before")))


@given(LOGS)
def test_a_log_comes_back_as_it_was_written(log: SinkLog) -> None:
    assert decode_sink_log(encode_sink_log(log), "p") == log


def test_the_newest_log_of_each_query_is_read() -> None:
    handle = MetadataTable().schema().open()
    assert read_sink_log(handle, "q") is None
    write_sink_log(handle, LOG)
    other = SinkLog("r", "me", 0, False, None)
    write_sink_log(handle, other)
    newer = SinkLog("q", "me", 8, False, SnapshotKey(4, "made"))
    write_sink_log(handle, newer)
    assert (read_sink_log(handle, "q"), read_sink_log(handle, "r")) == (newer, other)


def test_each_branch_has_its_own() -> None:
    table = MetadataTable().schema().schema(branch="b")
    write_sink_log(table.open("b"), LOG)
    assert read_sink_log(table.open(), "q") is None
    assert sink_log_path(table.open("b"), "q") == f"{table.root}/branch/branch-b/sink/sink-q"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version": 1}',
        encode_sink_log(LOG).replace(b'"me"', b'""'),
        encode_sink_log(LOG).replace(b"7", b'"7"'),
        encode_sink_log(LOG).replace(b"true", b"1"),
        encode_sink_log(LOG)[:-20],
    ],
)
def test_what_is_no_log_is_corrupt_and_named(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="the/path"):
        decode_sink_log(data, "the/path")


def test_a_log_of_a_later_release_is_refused() -> None:
    raw = {**json.loads(encode_sink_log(LOG)), "version": 2}
    with pytest.raises(UnknownFormatVersionError, match="version 2, known is 1"):
        decode_sink_log(json.dumps(raw).encode(), "p")


@pytest.mark.parametrize("query", ["", "a/b", "..", "a\0b"])
def test_an_id_that_leads_elsewhere_is_refused(query: str) -> None:
    with pytest.raises(InvalidInputError):
        sink_log_path(MetadataTable().schema().open(), query)
