"""Offsets of streams as text: every version, damage and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import OffsetError
from paimon_spark.streaming.offset import Part, Phase, StreamOffset, decode, encode

TABLE = "s3://lake/wh/db.db/orders"
GOLDEN: list[tuple[str, StreamOffset]] = [
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": 7, '
            '"made": "manifest-list-3f0e-1", "rows": 120}'
        ),
        StreamOffset(TABLE, "main", 7, "manifest-list-3f0e-1", 120),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": 7, '
            '"made": "manifest-list-3f0e-1"}'
        ),
        StreamOffset(TABLE, "main", 7, "manifest-list-3f0e-1"),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "fix", "snapshot": 7, '
            '"made": "manifest-list-3f0e-1", "rows": 120, '
            '"part": {"phase": "state", "units": 3, "of": 10, "digest": "9a0b1c"}}'
        ),
        StreamOffset(TABLE, "fix", 7, "manifest-list-3f0e-1", 120, Part(Phase.STATE, 3, 10, "9a0b1c")),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "fix", "snapshot": 7, '
            '"made": "manifest-list-3f0e-1", "part": {"phase": "changes", "units": 10, "of": 10, "digest": "9a0b1c"}}'
        ),
        StreamOffset(TABLE, "fix", 7, "manifest-list-3f0e-1", None, Part(Phase.CHANGES, 10, 10, "9a0b1c")),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": 7, '
            '"made": "manifest-list-3f0e-1", "part": {"phase": "state", "units": 0, "of": 0, "digest": ""}}'
        ),
        StreamOffset(TABLE, "main", 7, "manifest-list-3f0e-1", None, Part(Phase.STATE, 0, 0, "")),
    ),
    (
        '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": 6, "rows": 0}',
        StreamOffset(TABLE, "main", 6, rows=0),
    ),
    (
        '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": 0}',
        StreamOffset(TABLE, "main", 0),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": null, '
            '"beginsWith": "state"}'
        ),
        StreamOffset(TABLE, "main", None, begins_with=Phase.STATE),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": null, '
            '"beginsWith": "changes"}'
        ),
        StreamOffset(TABLE, "main", None),
    ),
    (
        (
            '{"version": 1, "table": "s3://lake/wh/db.db/orders", "branch": "main", "snapshot": 7, '
            '"made": "manifest-list-3f0e-1", "rows": 120, "barrier": 4}'
        ),
        StreamOffset(TABLE, "main", 7, "manifest-list-3f0e-1", 120, barrier=4),
    ),
]
"""What the first release wrote; it lies in checkpoints that are gone on with for ever."""
SOUND: dict[str, Any] = json.loads(GOLDEN[2][0])


def refused(raw: object) -> str:
    with pytest.raises(OffsetError) as caught:
        decode(raw)  # type: ignore[arg-type]
    return caught.value.message


@pytest.mark.parametrize(("text", "offset"), GOLDEN)
def test_offsets_of_version_1_are_read_for_ever(text: str, offset: StreamOffset) -> None:
    assert decode(json.loads(text)) == offset


@pytest.mark.parametrize(("text", "offset"), GOLDEN)
def test_offsets_are_written_as_ever(text: str, offset: StreamOffset) -> None:
    assert json.dumps(encode(offset)) == text


def test_keys_that_are_not_known_do_not_matter() -> None:
    assert decode({**SOUND, "comment": [1]}) == GOLDEN[2][1]


@pytest.mark.parametrize("version", [2, 17])
def test_an_offset_of_a_later_release_names_what_to_do(version: int) -> None:
    text = refused({"version": version, "somewhere": "else"})
    assert f"an offset of version {version}, known is 1" in text
    assert "written by a later release of paimon-spark; use that one" in text


@pytest.mark.parametrize(
    "raw",
    [
        {"partition-0": 3},
        {"snapshotId": 5, "index": 2, "scanSnapshot": False},  # Paimon's Java connector
        {"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": 5, "index": -1},  # Delta
        {"topic": {"0": 23}},  # Kafka
        {"logOffset": 4},
        {},
        [],
        [1, 2],
        "7",
        "",
        7,
        None,
        True,
    ],
)
def test_offsets_of_other_sources_are_refused(raw: object) -> None:
    text = refused(raw)
    assert f"the checkpoint holds {raw!r}, which is not an offset of a Paimon table" in text
    assert "give the query a checkpointLocation of its own" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"version": None},
        {"version": "1"},
        {"version": True},
        {"version": 1.0},
        {"version": -1},
        {"table": ""},
        {"table": 5},
        {"branch": None},
        {"snapshot": "7"},
        {"snapshot": 7.0},
        {"snapshot": -1},
        {"snapshot": True},
        {"snapshot": None},  # its part would be of nothing
        {"snapshot": 0},
        {"made": 3},
        {"made": ""},
        {"rows": "many"},
        {"rows": 1.5},
        {"part": 3},
        {"part": []},
        {"part": {}},
        {"part": {**SOUND["part"], "phase": "rows"}},
        {"part": {**SOUND["part"], "units": "3"}},
        {"part": {**SOUND["part"], "units": 11}},
        {"part": {**SOUND["part"], "units": -1}},
        {"part": {**SOUND["part"], "of": 9.5}},
        {"part": {**SOUND["part"], "digest": None}},
        {"part": {**SOUND["part"], "digest": ""}},
        {"part": None, "beginsWith": "rows"},
    ],
)
def test_a_damaged_offset_is_refused(changes: dict[str, Any]) -> None:
    assert "is not an offset of a Paimon table" in refused({**SOUND, **changes})


@pytest.mark.parametrize("key", ["version", "table", "branch", "snapshot"])
def test_an_offset_says_what_it_is_of(key: str) -> None:
    assert f"KeyError: '{key}'" in refused({k: v for k, v in SOUND.items() if k != key})


def test_messages_do_not_show_all_of_a_large_offset() -> None:
    assert len(refused({f"topic-{i}": i for i in range(10_000)})) < 1000


PARTS = st.integers(1, 2**40).flatmap(
    lambda of: st.builds(Part, st.sampled_from(Phase), st.integers(0, of), st.just(of), st.text(min_size=1))
)
OFFSETS = st.one_of(
    st.builds(
        StreamOffset,
        st.text(min_size=1),
        st.text(min_size=1),
        st.integers(1, 2**63 - 1),
        st.none() | st.text(min_size=1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | PARTS,
    ),
    st.builds(StreamOffset, st.text(min_size=1), st.text(min_size=1), st.none(), begins_with=st.sampled_from(Phase)),
)


@given(OFFSETS)
def test_offsets_come_back_from_json(offset: StreamOffset) -> None:
    assert decode(json.loads(json.dumps(encode(offset)))) == offset
