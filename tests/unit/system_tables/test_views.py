"""$audit_log, $binlog, $ro, $row_tracking: the table's own rows."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.system_tables.views import packed
from tests.harness.real_tables import a_catalog, put

ROWS = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return a_catalog(tmp_path)


def keyed(catalog: Catalog, **options: str) -> paimon_spark.Table:
    given = {"bucket": "1", "rowkind.field": "kind", **{k.replace("_", "-"): v for k, v in options.items()}}
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string()), ("kind", pa.string())])
    catalog.create_table("db.t", schema, primary_keys=["k"], options=given)
    return catalog.table("db.t")


def read(catalog: Catalog, name: str, **options: Any) -> list[tuple[Any, ...]]:
    found = catalog.table(f"db.t${name}").scan(**options).to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_the_audit_log_shows_deleted_rows(catalog: Catalog) -> None:
    t = keyed(catalog, write_only="true")
    put(t, (1, "a", "+I"), (2, "b", "+I"))
    put(t, (1, "a2", "+U"), (2, "b", "-D"))
    assert t.scan(columns=["k", "v"]).to_arrow().to_pylist() == [{"k": 1, "v": "a2"}]
    columns = ["rowkind", "k", "v"]
    assert read(catalog, "audit_log", columns=columns) == [("+U", 1, "a2"), ("-D", 2, "b")]
    assert read(catalog, "audit_log", columns=["k"], where="rowkind = '-D'") == [(2,)]
    assert read(catalog, "audit_log", columns=columns, where="k = 1 and rowkind <> '-D'") == [("+U", 1, "a2")]
    assert read(catalog, "audit_log", columns=columns, where="k = 2 or rowkind = '+U'") == [
        ("+U", 1, "a2"),
        ("-D", 2, "b"),
    ]
    assert read(catalog, "audit_log", columns=["k"], where="rowkind = '+U' and 1 / (k - 2) = -1") == [(1,)]
    assert read(catalog, "audit_log", columns=["v"], version=1) == [("a",), ("b",)]
    assert read(catalog, "binlog", columns=columns) == [("+U", [1], ["a2"]), ("-D", [2], ["b"])]
    assert catalog.table("db.t$audit_log").scan(columns=["rowkind"]).to_arrow().schema.names == ["rowkind"]


def test_changes_between_versions_in_the_audit_log_and_in_pairs_in_the_binlog(catalog: Catalog) -> None:
    t = keyed(catalog, write_only="true", changelog_producer="input")
    put(t, (1, "a", "+I"), (2, "b", "+I"))
    put(t, (1, "a", "-U"), (1, "a2", "+U"), (2, "b", "-D"))
    between = {"incremental-between": "1,2", "columns": ["rowkind", "k", "v"]}
    assert read(catalog, "audit_log", **between) == [("+U", 1, "a2"), ("-D", 2, "b"), ("-U", 1, "a")]
    assert read(catalog, "binlog", **between) == [("+U", [1, 1], ["a", "a2"]), ("-D", [2], ["b"])]
    assert read(catalog, "binlog", where="rowkind = '-D'", **between) == [("-D", [2], ["b"])]


def test_ro_shows_only_what_is_fully_compacted(catalog: Catalog) -> None:
    t = keyed(catalog, write_only="true", num_levels="3")
    put(t, (1, "a", "+I"))
    assert read(catalog, "ro") == []
    with pytest.raises(InvalidOptionError, match=r"\$ro shows what is fully compacted.*\$audit_log"):
        read(catalog, "ro", **{"incremental-between": "1,1"})
    with pytest.raises(InvalidOptionError, match=r"read.changelog.*\$audit_log"):
        read(catalog, "ro", **{"read.changelog": True})
    catalog.create_table("db.a", ROWS)
    a = catalog.table("db.a")
    a.write(pa.table({"k": [1], "v": ["x"]}, schema=ROWS))
    assert catalog.table("db.a$ro").scan().to_arrow().to_pylist() == [{"k": 1, "v": "x"}]


def test_row_tracking_has_ids_that_are_never_null(catalog: Catalog) -> None:
    catalog.create_table("db.t", ROWS, options={"row-tracking.enabled": "true"})
    t = catalog.table("db.t")
    t.write(pa.table({"k": [7, 8], "v": ["x", None]}, schema=ROWS))
    t.write(pa.table({"k": [9], "v": ["y"]}, schema=ROWS))
    scan = catalog.table("db.t$row_tracking").scan()
    assert [str(f.type) for f in scan.row_type][-2:] == ["BIGINT NOT NULL", "BIGINT NOT NULL"]
    assert read(catalog, "row_tracking") == [(7, "x", 0, 1), (8, None, 1, 1), (9, "y", 2, 2)]
    assert read(catalog, "row_tracking", columns=["k"], where="_ROW_ID = 2") == [(9,)]


def test_a_table_without_row_ids_has_no_row_tracking(catalog: Catalog) -> None:
    catalog.create_table("db.t", ROWS)
    with pytest.raises(InvalidInputError, match=r"db\.t has no \$row_tracking.*row-tracking\.enabled = true"):
        read(catalog, "row_tracking")


def test_sequence_numbers_in_the_audit_log_are_refused_by_name(catalog: Catalog) -> None:
    t = keyed(catalog, **{"table-read.sequence-number.enabled": "true"})
    put(t, (1, "a", "+I"))
    with pytest.raises(UnsupportedFeatureError, match=r"table-read\.sequence-number\.enabled = false"):
        read(catalog, "audit_log")


def test_a_view_is_planned_once_and_travels_to_other_processes(catalog: Catalog) -> None:
    t = keyed(catalog, write_only="true")
    put(t, (1, "a", "+I"))
    scan = catalog.table("db.t$audit_log").scan(columns=["k"])
    plan = scan.plan()
    put(t, (2, "b", "+I"))
    assert scan.to_arrow()["k"].to_pylist() == [1]
    assert plan.snapshot is not None and plan.snapshot.id == 1
    assert pickle.loads(pickle.dumps(scan)).to_arrow()["k"].to_pylist() == [1, 2]


KINDS = st.lists(st.sampled_from(["+I", "-U", "+U", "-D"]), max_size=12)


@given(KINDS, st.lists(st.integers(0, 12), max_size=3), st.booleans())
def test_pairs_are_packed_whatever_the_batches(kinds: list[str], cuts: list[int], pairs: bool) -> None:
    table = pa.table({"rowkind": pa.array(kinds, pa.string()), "k": pa.array(range(len(kinds)), pa.int64())})
    ends = sorted({min(c, len(kinds)) for c in cuts} | {0, len(kinds)})
    batches = [b for s, e in pairwise(ends) for b in table.slice(s, e - s).combine_chunks().to_batches()]
    schema = pa.schema([("rowkind", pa.string()), ("k", pa.list_(pa.field("element", pa.int64())))])
    got = [(r["rowkind"], r["k"]) for b in packed(batches, schema, pairs=pairs) for r in b.to_pylist()]
    want, i = [], 0
    while i < len(kinds):
        size = 2 if pairs and kinds[i : i + 2] == ["-U", "+U"] else 1
        want.append((kinds[i + size - 1], list(range(i, i + size))))
        i += size
    assert got == want
