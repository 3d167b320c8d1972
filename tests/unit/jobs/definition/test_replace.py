"""A table gets another definition; its history stays, and a failure can be undone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.jobs.definition.replace import replace_table, undo_replacement
from paimon_spark.metadata.definition.ddl import row_type
from tests.harness.real_tables import a_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = a_table(
        "id BIGINT, s STRUCT<a: INT>, p STRING", keys="id p", by="p", options={"bucket": "2"}, where=tmp_path
    )
    made.write(pa.table({"id": [1, 2], "s": [{"a": 1}, None], "p": ["x", "y"]}))
    return made


def test_rows_go_and_versions_stay_with_their_own_columns(table: Table) -> None:
    done = replace_table(
        table, row_type("p STRING, s STRUCT<a: INT>, id STRING"), ["id", "p"], ["p"], {"bucket": "4"}, "c"
    )
    assert done.head == 1
    new = done.table
    assert new.scan().to_arrow().num_rows == 0
    assert [(f.id, f.name) for f in new.schema.fields] == [(3, "p"), (1, "s"), (4, "id")]
    assert (new.schema.highest_field_id, new.schema.options, new.schema.comment) == (4, {"bucket": "4"}, "c")
    assert sorted(new.scan(version=1).to_arrow()["id"].to_pylist()) == [1, 2]
    new.write(pa.table({"id": ["1"], "s": [{"a": 5}], "p": ["x"]}))
    assert new.scan().to_arrow().to_pylist() == [{"p": "x", "s": {"a": 5}, "id": "1"}]


def test_a_replacement_is_undone(table: Table) -> None:
    done = replace_table(table, row_type("id STRING, p STRING"), partition_keys=["p"], options={"bucket": "-1"})
    undo_replacement(done)
    found = done.table.scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "s": {"a": 1}, "p": "x"}, {"id": 2, "s": None, "p": "y"}]
    assert done.table.schema.primary_keys == ("id", "p")


def test_a_table_without_rows_gets_no_snapshot(tmp_path: Path) -> None:
    table = a_table("a INT", where=tmp_path)
    done = replace_table(table, row_type("b INT"))
    assert (done.head, done.table.snapshots(), done.table.row_type.names) == (None, [], ("b",))
    undo_replacement(done)
    assert table.schema.row_type.names == ("a",)


def test_branches_and_other_partitions_are_refused_and_nothing_changes(table: Table) -> None:
    table.create_tag("base")
    table.create_branch("fix", tag="base")
    for wrong, keys, kind in [
        (table.branch("fix"), ["p"], UnsupportedFeatureError),
        (table, [], UnsupportedFeatureError),
        (table, ["q"], InvalidInputError),
        (table.at(1), ["p"], InvalidInputError),
    ]:
        with pytest.raises(kind):
            replace_table(wrong, row_type("id INT, p STRING"), partition_keys=keys)
    assert (len(table.snapshots()), table.schema.id) == (1, 0)


def test_the_format_of_manifests_stays_as_the_history_has_it(tmp_path: Path) -> None:
    table = a_table("a INT", options={"manifest.format": "orc"}, where=tmp_path)
    table.write(pa.table({"a": pa.array([1], pa.int32())}))
    with pytest.raises(InvalidOptionError, match=r"manifest\.format = 'avro'"):
        replace_table(table, row_type("b INT"), options={"manifest.format": "avro"})
    done = replace_table(table, row_type("b INT"), options={"bucket": "-1"})
    assert done.table.schema.options == {"manifest.format": "orc", "bucket": "-1"}
    manifests = list((tmp_path / "db.db" / "t" / "manifest").iterdir())
    assert manifests
    assert all(f.read_bytes().startswith(b"ORC") for f in manifests)
