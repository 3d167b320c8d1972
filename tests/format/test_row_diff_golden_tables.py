"""Row differences between versions of tables that other engines wrote, beside a comparison value by value."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.versioning.compare import changed_columns
from tests.harness.golden import BEYOND_NANOSECONDS, golden_reads
from tests.harness.row_differences import assert_is, by_brute_force

PATHS = sorted({r.path for r in golden_reads() if r.table not in BEYOND_NANOSECONDS})


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.parent.name)
def test_equals_brute_force(path: Path) -> None:
    table = paimon_spark.load_table(str(path))
    versions = [f"snapshot.{s.id}" for s in table.snapshots()]
    heads = [branch.name for branch in table.branches(include_internal=True)]
    pairs = [*pairwise(versions), *([(versions[-1], versions[0])] if len(versions) > 1 else [])]
    pairs += [("main", head) for head in heads]
    if not pairs:
        pytest.skip("it has one version")
    compared = 0
    for old, new in pairs:
        before, after = (table.at(version).scan() for version in (old, new))
        kinds = {c.kind for c in changed_columns(before.schema, after.schema)}
        if kinds & {"renamed", "retyped"}:
            assert [c.kind for c in table.diff(old, new, rows=True).schema_changes]
            continue
        names = [n for n in after.schema.row_type.names if n in before.schema.row_type.names]
        keys = after.schema.primary_keys if before.schema.primary_keys == after.schema.primary_keys else ()
        expected = by_brute_force(before.to_arrow().select(names), after.to_arrow().select(names), keys)
        assert_is(table.diff(old, new, rows=True), expected, f"{old} {new}", names)
        compared += 1
    assert compared or table.schema.id
