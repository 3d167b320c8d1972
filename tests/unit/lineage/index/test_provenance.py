"""Provenance of a commit, as properties of its snapshot."""

from __future__ import annotations

import json

import pytest

from paimon_spark.lineage.index.provenance import (
    SOURCES,
    Provenance,
    SourceRange,
    TableRef,
    decode_provenance,
    encode_provenance,
)

REFS = [
    TableRef("db", "t"),
    TableRef("db", "t$branch_fix"),
    TableRef("db", "t.v2"),
    TableRef("a.b", "t"),
    TableRef("a.b", "a.b.t$branch_x"),
    TableRef("it's", 'a "b"/é'),
]


@pytest.mark.parametrize("ref", REFS)
def test_any_name_is_read_as_it_was_written(ref: TableRef) -> None:
    provenance = Provenance("a job", 7, (SourceRange(ref, "s3://b/wh", after=3, last=5, within=6),), "q")
    assert decode_provenance(encode_provenance(provenance)) == provenance


def test_a_table_outside_any_warehouse_and_unknown_sources_are_read_as_they_were_written() -> None:
    for provenance in (
        Provenance("j", 0, (SourceRange(None, location="s3://b/t", last=0),)),
        Provenance("j", 0, knows_sources=False),
    ):
        assert decode_provenance(encode_provenance(provenance)) == provenance


def test_a_name_without_dots_says_all() -> None:
    told = json.loads(encode_provenance(Provenance("j", 0, (SourceRange(TableRef("db", "t"), last=1),)))[SOURCES])
    assert told["sources"] == [{"table": "db.t", "last": 1}]
