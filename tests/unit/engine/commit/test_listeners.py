"""Who is told of commits, how, and what happens when a listener fails."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import CommitEvent, CommitListener
from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import WriteMode
from tests.harness.keywords import keywords

SEEN: list[CommitEvent] = []
ROWS = pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.array(["a", "b"])})


class Listener:
    def on_commit(self, event: CommitEvent) -> None:
        SEEN.append(event)


class Failing:
    def on_commit(self, event: CommitEvent) -> None:
        raise RuntimeError("no")


class Deaf:
    pass


class Unmade:
    def __init__(self) -> None:
        raise OSError("cannot be made")


@pytest.fixture(autouse=True)
def _register(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("listeners_of_test")
    for cls in (Listener, Failing, Deaf, Unmade):
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "listeners_of_test", module)
    SEEN.clear()


def catalog(tmp_path: Path, **options: str) -> paimon_spark.Catalog:
    found = paimon_spark.load_catalog(str(tmp_path / "wh"), **options)
    found.create_database("db", ignore_if_exists=True)
    return found


def keyed(tmp_path: Path) -> paimon_spark.Table:
    return catalog(tmp_path).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())]),
        primary_keys=["k"],
        options={"bucket": "1"},
    )


LISTENING: dict[str, Any] = {"commit.listeners": "listeners_of_test:Listener"}


def test_a_listener_of_a_write_is_told_of_its_snapshot(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    result = table.write(ROWS, **LISTENING)
    [event] = SEEN
    [snapshot] = table.snapshots()
    assert (event.snapshot_id,) == result.snapshot_ids
    assert (event.table, event.branch, event.location) == ("db.t", "main", table.location)
    assert (event.commit_user, event.identifier) == (snapshot.commit_user, snapshot.commit_identifier)
    assert (event.kind, event.time_ms) == (CommitKind.APPEND, snapshot.time_ms)
    assert isinstance(Listener(), CommitListener)


def test_a_listener_of_the_catalog_is_told_of_every_kind_of_commit(tmp_path: Path) -> None:
    keyed(tmp_path)
    table = catalog(tmp_path, **LISTENING).table("db.t")
    table.write(ROWS)
    table.write(ROWS)
    table.compact(full=True)
    table.delete("k = 1")
    table.write(ROWS, mode="overwrite")
    table.create_branch("fix", snapshot_id=1)
    table.branch("fix").write(ROWS)
    table.rollback_to_as_latest("snapshot.1")
    told = [(e.branch, e.snapshot_id, e.kind.value) for e in SEEN]
    made = [("main", s.id, s.commit_kind.value) for s in table.snapshots()]
    assert [t for t in told if t[0] == "main"] == made
    assert ("fix", 2, "APPEND") in told


def test_several_listeners_are_told_in_order_and_a_failing_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = keyed(tmp_path)
    names = "listeners_of_test:Failing, listeners_of_test:Unmade, listeners_of_test:Deaf, no_such_module:X"
    with caplog.at_level(logging.ERROR):
        table.write(ROWS, **keywords({"commit.listeners": f"{names}, listeners_of_test:Listener"}))
    assert [e.snapshot_id for e in SEEN] == [1]
    assert [s.id for s in table.snapshots()] == [1]
    text = caplog.text
    assert "Failing failed after snapshot 1 of table db.t" in text
    for what in ("listeners_of_test:Unmade", "listeners_of_test:Deaf", "no_such_module:X"):
        assert f"names {what}, which cannot be made" in text


@pytest.mark.parametrize("text", ["Listener", "module:", ":Class", "a b:Class", "m:a.b", "m:C:D"])
def test_a_name_of_another_form_is_an_error_before_anything_is_written(tmp_path: Path, text: str) -> None:
    table = keyed(tmp_path)
    with pytest.raises(InvalidOptionError, match="expected module:Class"):
        table.write(ROWS, **keywords({"commit.listeners": text}))
    with pytest.raises(InvalidOptionError, match="expected module:Class"):
        catalog(tmp_path, **keywords({"commit.listeners": text}))
    assert not table.snapshots()


def test_a_table_cannot_store_options_of_a_job(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    for key in ("commit.listeners", "lineage.job", "lineage.barrier", "lineage.flush-interval"):
        with pytest.raises(InvalidOptionError, match="is of one job and is not stored in a table"):
            table.alter(set_options={key: "1"})
        with pytest.raises(InvalidOptionError, match="is of one job and is not stored in a table"):
            catalog(tmp_path).create_table("db.u", ROWS.schema, options={key: "1"})
    assert catalog(tmp_path).list_tables("db") == ["t"]


def test_what_a_foreign_writer_stored_is_not_run(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    path = tmp_path / "wh" / "db.db" / "t" / "schema" / "schema-0"
    path.write_text(path.read_text().replace('"bucket"', '"commit.listeners": "listeners_of_test:Listener", "bucket"'))
    opened = catalog(tmp_path).table("db.t")
    assert opened.schema.options["commit.listeners"] == "listeners_of_test:Listener"
    opened.write(ROWS)
    assert not SEEN
    assert [s.id for s in table.snapshots()] == [1]


def test_a_write_that_makes_the_table_does_not_store_options_of_the_job(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "new"), **LISTENING, "lineage.job": "j", "file.format": "avro"}
    planned = plan_path_write(options, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    planned.commit(planned.write(ROWS.to_batches()))
    assert [e.snapshot_id for e in SEEN] == [1]
    assert dict(paimon_spark.load_table(str(tmp_path / "new")).schema.options) == {"file.format": "avro"}
