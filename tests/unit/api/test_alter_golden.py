"""Tables of other writers are read after their definition changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.types import AtomicType
from tests.harness.golden import BEYOND_NANOSECONDS, FIXTURES

# A change of one branch alone makes a table with a fallback branch unreadable: both have one set of columns.
TABLES = sorted(p.parent for p in FIXTURES.glob("*/*/expected.json") if p.parent.name != "fallback_branch")


@pytest.mark.parametrize("folder", TABLES, ids=lambda p: "-".join(p.parts[-2:]))
def test_files_of_other_writers_are_read_after_a_change(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "table", tmp_path / "t")
    table = paimon_spark.load_table(str(tmp_path / "t"))
    schema = table.schema
    columns = [n for n in schema.row_type.names if n not in BEYOND_NANOSECONDS.get(folder.name, ())]
    before = table.scan(columns=columns).to_arrow()
    keys = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
    free = [f for f in schema.fields if f.name not in keys]
    wider = [f.name for f in free if f.type.with_nullable(True) == AtomicType(name="INT")]
    renamed = {f.name: f"{f.name}_2" for f in free[-1:]}
    changed = table.alter(
        add={"added": "STRUCT<x: INT>"},
        rename=renamed,
        retype={renamed.get(n, n): "BIGINT" for n in wider},
        move={"added": "first"},
    )
    after = changed.scan(columns=["added", *(renamed.get(n, n) for n in columns)]).to_arrow()
    assert after["added"].null_count == after.num_rows
    for name in columns:
        old, new = before[name], after[renamed.get(name, name)]
        assert new.type == (pa.int64() if name in wider else old.type), name
        # As text where not equal: NaN is not equal to itself.
        assert new.cast(old.type).equals(old) or str(new.to_pylist()) == str(old.to_pylist()), name
