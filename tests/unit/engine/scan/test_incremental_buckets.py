"""Two states of a table whose keys lie in other buckets: changes are found by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table, put


def changes(table: Table, between: str, **options: str) -> list[tuple[Any, ...]]:
    """Kind, key and value of the rows that differ between two tags."""
    found = table.scan(**keywords({"incremental-between": between, "read.changelog": "true", **options})).to_arrow()
    return sorted((r["rowkind"], r["a"], r["b"]) for r in found.to_pylist())


@pytest.mark.parametrize("more", [{}, {"deletion-vectors.enabled": "true"}, {"file.format": "avro"}], ids=str)
def test_tags_with_other_numbers_of_buckets_are_compared_by_key(tmp_path: Path, more: dict[str, str]) -> None:
    table = a_table("p INT, a INT, b INT", keys="p a", by="p", options={"bucket": "1", **more}, where=tmp_path)
    put(table, *((p, a, 10 * a) for p in (1, 2) for a in range(8)))
    table.compact(full=True)
    table.create_tag("one")
    table = table.alter(set_options={"bucket": "3"})
    table.rescale(where="p = 1")
    table.create_tag("same")
    assert changes(table, "one,same") == []
    put(table, (1, 20, 1), (1, 3, 33))
    table.delete("p = 1 AND a = 5")
    table.compact(full=True)
    table.create_tag("two")
    assert changes(table, "one,two") == [("+I", 3, 33), ("+I", 20, 1), ("-D", 5, 50)]
    assert changes(table, "same,two") == changes(table, "one,two")
    assert changes(table, "one,two", where="a = 3") == [("+I", 3, 33)]
    assert changes(table, "one,two", where="p = 2") == []
    plain = table.scan(**keywords({"incremental-between": "one,two"})).to_arrow().to_pylist()
    assert sorted((r["a"], r["b"]) for r in plain) == [(3, 33), (20, 1)]


def test_an_overwrite_of_dynamic_buckets_changes_only_what_is_other(tmp_path: Path) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
    table = a_table("p INT, a INT, b INT", keys="a", options=options, where=tmp_path)
    put(table, *((0, a, a) for a in range(12)))
    table.create_tag("one")
    put(table, *((0, a, a) for a in reversed(range(12))), (0, 12, 12), mode="overwrite")
    table.create_tag("two")
    of_bucket = [
        {bucket: sorted(r["a"] for r in rows_of) for bucket, rows_of in by_bucket(table.at(tag)).items()}
        for tag in ("one", "two")
    ]
    assert of_bucket[0] != of_bucket[1], "keys did not move"
    assert changes(table, "one,two") == [("+I", 12, 12)]
    table.delete("a = 1")
    table.create_tag("three")
    assert changes(table, "two,three") == [("-D", 1, 1)]
    assert changes(table, "one,three") == [("+I", 12, 12), ("-D", 1, 1)]
    table.expire_snapshots(retain_max=1)
    assert changes(table, "one,three") == [("+I", 12, 12), ("-D", 1, 1)]


def by_bucket(table: Table) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in table.scan(columns=["a", "__paimon_bucket"]).to_arrow().to_pylist():
        found.setdefault(row["__paimon_bucket"], []).append(row)
    return found


def test_rows_without_keys_are_not_compared_across_numbers_of_buckets(tmp_path: Path) -> None:
    table = a_table("p INT, a INT, b INT", options={"bucket": "1", "bucket-key": "a"}, where=tmp_path)
    put(table, (0, 1, 1))
    table.create_tag("one")
    table = table.alter(set_options={"bucket": "2"})
    table.rescale()
    table.create_tag("two")
    with pytest.raises(InvalidInputError, match="rows without keys cannot be compared"):
        changes(table, "one,two")
