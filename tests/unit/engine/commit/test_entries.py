"""Manifests left out hold no entry of the partitions asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.commit.conflicts import key_conflict, overlapping_groups
from paimon_spark.engine.commit.entries import Touched, data_changes, no_entries, together
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.metadata.manifests import write_manifest
from paimon_spark.storage.urls import open_store
from paimon_spark.types import DataField, RowType, parse_type
from tests.harness.commits import APPEND, KEYED, a_file, make_table, message
from tests.harness.search import examples

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "STRING": st.text(max_size=20),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.floats(),
    "DATE": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "DECIMAL(20, 2)": st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-2)),
    "TIMESTAMP(9)": st.tuples(st.integers(-(10**13), 10**13), st.integers(0, 999_999)),
}


@settings(max_examples=examples(80))
@given(st.data())
def test_no_manifest_of_a_touched_partition_is_left_out(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2))
    names = tuple(f"p{i}" for i in range(len(kinds)))
    fields = tuple(DataField(10 + i, n, parse_type(kind)) for i, (n, kind) in enumerate(zip(names, kinds, strict=True)))
    schema = replace(APPEND, row_type=RowType(False, (*fields, *APPEND.fields[1:])), partition_keys=names)
    table = make_table(*open_store(f"memory://{uuid4().hex}/t"), schema)
    row = st.tuples(*(st.none() | VALUES[kind] for kind in kinds))
    pool = data.draw(st.lists(row, min_size=1, max_size=6))
    encoded = [binary_row.encode(list(r), [f.type for f in fields]) for r in pool]
    manifests = data.draw(st.lists(st.lists(st.sampled_from(encoded), min_size=1, max_size=3), min_size=1, max_size=5))
    metas = []
    for partitions in manifests:
        done = Increment(new_files=(a_file("a"),))
        metas += write_manifest(table, data_changes([CommitMessage(p, 0, -1, done) for p in partitions]).files)
    wanted = data.draw(st.lists(st.sampled_from(encoded), max_size=3))
    found = Touched(table, array_of(wanted, pa.binary())).manifests(metas).tolist()
    for partitions, possible in zip(manifests, found, strict=True):
        assert possible or not set(partitions) & set(wanted)
    assert wanted or not any(found)


def test_manifests_far_away_are_left_out() -> None:
    table = make_table(*open_store(f"memory://{uuid4().hex}/t"), replace(APPEND, partition_keys=("p",)))
    metas = [
        write_manifest(table, data_changes([message(table, a_file(f"{a}-{p}"), p=p) for p in range(a, a + 3)]).files)[0]
        for a in (0, 10, 20)
    ]
    asked = data_changes([message(table, a_file("x"), p=p) for p in (2, 15, 21)]).files.column("partition")
    assert Touched(table, asked.chunk(0)).manifests(metas).tolist() == [True, False, True]


RANGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 30), st.integers(0, 5)), min_size=1, max_size=8
)


@given(RANGES, RANGES)
def test_overlapping_keys_are_found_as_by_looking_at_every_pair(old: list[Any], new: list[Any]) -> None:
    """(bucket, level, first key, keys more) of files there and of files added."""
    table = make_table(*open_store(f"memory://{uuid4().hex}/t"), KEYED)

    def entries(given: list[Any], prefix: str) -> pa.Table:
        return together(
            no_entries(),
            *(
                data_changes([message(table, a_file(f"{prefix}{i}", level=lv, keys=(k, k + n)), bucket=b)]).files
                for i, (b, lv, k, n) in enumerate(given)
            ),
        )

    def clash(x: Any, y: Any) -> bool:
        return bool(x[:2] == y[:2] and x[2] <= y[2] + y[3] and y[2] <= x[2] + x[3])

    files = [*old, *new]
    grown = {f[:2] for f in new if f[1] >= 1}
    wanted = any(clash(x, y) for i, x in enumerate(files) for y in files[:i] if x[:2] in grown)
    key_type = table.schema.key_type
    assert (key_conflict(key_type, entries(old, "a"), entries(new, "b")) is not None) == wanted
    groups = {x[:2] for i, x in enumerate(files) for y in files[:i] if clash(x, y)}
    assert overlapping_groups(key_type, entries(files, "f")).tolist() == [f[:2] in groups for f in files]
