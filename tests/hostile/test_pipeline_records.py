"""Forged records, decisions, journals and locks of changes of several tables reach nothing but such records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CorruptFileError
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.journal.decision import Decision, decide, decision_path, find_decision
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.pipelines.records import (
    BranchRecord,
    ReleaseRecord,
    branch_json,
    branch_path,
    complete,
    complete_changes,
    get_branch_record,
    list_branch_records,
    list_release_records,
    release_json,
    release_path,
    to_complete,
)
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.commits import APPEND, a_file, committer, make_table, message

ID = "0123456789abcdef0123456789abcdef"
PIPELINES = "paimon.db/_pipelines"
RELEASE = ReleaseRecord(1, {"db.t": 1}, {"db.t": "b"}, "fix", 5)
BRANCH = BranchRecord("fix", {"db.t": 1}, ("job",), "snapshot 1", 5)


class Place:
    """A warehouse with one table, and files of somebody else beside it."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder
        self.warehouse = Warehouse(store, f"{folder}/wh")
        self.table = f"{folder}/wh/db.db/t"
        self.outside = (f"{folder}/victim", f"{folder}/x", f"{folder}/wh/victim", f"{folder}/wh/db.db/victim")
        for path in self.outside:
            store.write(path, b"theirs")
        make_table(store, self.table, APPEND)
        handle = self.handle()
        committer(handle).commit([message(handle, a_file("f"))])

    def handle(self) -> TableHandle:
        return open_table(self.store, self.table, "main", "db.t")

    def files(self) -> dict[str, bytes]:
        """Every file there is, but the table's own lock."""

        def below(directory: str) -> dict[str, bytes]:
            out: dict[str, bytes] = {}
            for info in self.store.list(directory):
                path = f"{directory}/{info.name}"
                out |= below(path) if info.is_directory else {path: self.store.read(path)}
            return out

        return below(self.folder)

    def forge(self, record: Any = None, tables: Any = (), name: str = ID, **more: Any) -> None:
        """Put a decision where they are looked for."""
        raw = {"version": 1, "runs": True, "tables": tables, "record": record or {}, **more}
        self.store.write(f"{self.warehouse.root}/{PIPELINES}/changes/{name}", json.dumps(raw).encode())


@pytest.fixture(autouse=True)
def _unreadable_files_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.metadata.small_files.WAITS_S", ())


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(*open_store(f"memory://{tmp_path}" if request.param == "memory" else str(tmp_path)))


def readers(place: Place) -> list[Callable[[], object]]:
    warehouse = place.warehouse
    return [
        lambda: list_release_records(warehouse),
        lambda: list_branch_records(warehouse),
        lambda: get_branch_record(warehouse, "fix"),
        lambda: complete_changes(warehouse),
        lambda: complete(warehouse, ID),
    ]


WRONG_PATHS = (
    "../victim", "../x", "victim", "db.db/victim", "/etc/victim", "db.db/t/schema/schema-0",
    f"{PIPELINES}/branches/../../../victim", f"{PIPELINES}/branches/..%2Fx.json/../x", f"{PIPELINES}/releases/0.json",
    f"{PIPELINES}/releases/1.json/../../../../victim", f"{PIPELINES}/releases/\u0661.json", f"{PIPELINES}/changes/{ID}",
    f"{PIPELINES}//releases/1.json", f"{PIPELINES}\\releases\\1.json", f"{PIPELINES}/releases/1.json\n", "",
    f"{PIPELINES}/branches/a.b.json", "paimon.db/_lineage/jobs/x.json",
)  # fmt: skip


@pytest.mark.parametrize("path", WRONG_PATHS)
@pytest.mark.parametrize("values", [None, {"version": 1}, release_json(RELEASE)])
def test_a_decision_writes_and_deletes_records_only(place: Place, path: str, values: Any) -> None:
    place.forge({"files": {f"{PIPELINES}/releases/1.json": release_json(RELEASE), path: values}}, ["db.db/t"])
    before = place.files()
    for act in readers(place):
        with pytest.raises(CorruptFileError):
            act()
    assert place.files() == before


@pytest.mark.parametrize(
    "record",
    [
        {"files": {f"{PIPELINES}/releases/1.json": None}},
        {"files": {f"{PIPELINES}/releases/1.json": "text"}},
        {"files": {f"{PIPELINES}/releases/2.json": release_json(RELEASE)}},
        {"files": {f"{PIPELINES}/releases/1.json": {"version": 1, "reserved": "x"}}},
        {"files": {f"{PIPELINES}/releases/1.json": {**release_json(RELEASE), "backups": {"db.t": "../../x"}}}},
        {"files": {f"{PIPELINES}/releases/1.json": {**release_json(RELEASE), "tables": {"../x.t": 1}}}},
        {"files": {f"{PIPELINES}/releases/1.json": {**release_json(RELEASE), "undoes": "1"}}},
        {"files": {f"{PIPELINES}/branches/other.json": branch_json(BRANCH)}},
        {"files": {f"{PIPELINES}/branches/fix.json": {**branch_json(BRANCH), "tables": {"db.../x": 1}}}},
        {"files": {f"{PIPELINES}/branches/fix.json": {**branch_json(BRANCH), "tables": {"db": 1}}}},
        {"files": {f"{PIPELINES}/branches/fix.json": {**branch_json(BRANCH), "jobs": [1]}}},
        {"files": [f"{PIPELINES}/branches/fix.json"]},
    ],
)
def test_records_of_a_decision_must_be_whole(place: Place, record: Any) -> None:
    place.forge(record, ["db.db/t"])
    before = place.files()
    for act in readers(place):
        with pytest.raises(CorruptFileError):
            act()
    assert place.files() == before


@pytest.mark.parametrize(
    "tables",
    [
        ["../victim"],
        ["db.db"],
        ["db.db/../victim"],
        ["db/t"],
        [".db/t"],
        ["../x.db/t"],
        ["db.db/t/branch"],
        [7],
        "db.db/t",
    ],
)
def test_a_decision_names_tables_of_its_warehouse_only(place: Place, tables: Any) -> None:
    place.forge({}, tables)
    before = place.files()
    for act in readers(place):
        with pytest.raises(CorruptFileError, match="no table of its warehouse"):
            act()
    assert place.files() == before


@pytest.mark.parametrize("name", ["x.json", "A" * 32, "a" * 65, "e-f", "%2E%2E"])
def test_other_files_beside_decisions_are_named_and_stay(place: Place, name: str) -> None:
    place.forge({"files": {}}, [], name)
    before = place.files()
    with pytest.raises(CorruptFileError, match="its name is none"):
        complete_changes(place.warehouse)
    assert place.files() == before


def test_one_forged_decision_stops_nobody_from_completing_by_hand(place: Place) -> None:
    place.forge({"files": {"../victim": None}}, [], "b" * 32)
    place.forge({"files": {f"{PIPELINES}/releases/1.json": release_json(RELEASE)}}, ["db.db/t"])
    complete(place.warehouse, ID)
    place.store.delete(decision_path(place.warehouse.root, "b" * 32))
    assert list_release_records(place.warehouse) == [RELEASE]


def test_decisions_of_this_package_are_completed(place: Place) -> None:
    warehouse = place.warehouse
    for name in ("fix", "späť/../x y", "a" * 300, "..", "n.o~t"):
        record = BranchRecord(name, {"db.t": None, "other.db t": 3}, ("job",), "", 5)
        made = to_complete({branch_path(warehouse, name): branch_json(record)}, warehouse)
        decide(place.store, decision_path(warehouse.root, ID), Decision(True, ("db.db/t",), made))
        assert get_branch_record(warehouse, name) == record
        gone = to_complete({branch_path(warehouse, name): None}, warehouse)
        decide(place.store, decision_path(warehouse.root, ID), Decision(True, (), gone))
        assert list_branch_records(warehouse) == []
    made = to_complete({release_path(warehouse, 1): release_json(RELEASE)}, warehouse)
    decide(place.store, decision_path(warehouse.root, ID), Decision(True, ("db.db/t",), made))
    assert list_release_records(warehouse) == [RELEASE]


@pytest.mark.parametrize("files", [{"x": None}, {f"{PIPELINES}/releases/9.json": release_json(RELEASE)}])
def test_what_would_not_be_read_is_not_written(place: Place, files: Any) -> None:
    with pytest.raises(CorruptFileError):
        to_complete({f"{place.warehouse.root}/{path}": values for path, values in files.items()}, place.warehouse)
    with pytest.raises(ValueError, match="not the path of a table"):
        decide(place.store, decision_path(place.warehouse.root, ID), Decision(True, ("../x",), {}))
    with pytest.raises(ValueError, match="not the id of a decision"):
        decision_path(place.warehouse.root, "../x")


STEPS = [["put", "snapshot/snapshot-9", "x"], ["delete-tree", "snapshot"]]


def journal(place: Place, table: str, raw: dict[str, Any], operation: str = "abc", **owner: Any) -> None:
    """The lock and the journal of a process that is dead."""
    held = {"operation": operation, "host": "h", "machine": None, "pid": 1, "started": None, **owner}
    lock = {"version": 1, "owner": held, "kind": "publish-pipeline", "sinceMillis": 0}
    place.store.write(f"{table}/intent/intent", json.dumps(lock).encode())
    change = {"version": 2, "kind": "publish-pipeline", "label": "publication", "steps": STEPS, "released": [], **raw}
    place.store.write(f"{table}/intent/plan-{operation}", json.dumps(change).encode())


@pytest.fixture(autouse=True)
def _owners_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.metadata.journal.lock.Owner.is_alive", lambda _: False)


@pytest.mark.parametrize("decision", ["../../x", "..", "", 7, "A", "a" * 65, "é"])
def test_a_journal_with_a_name_that_no_decision_has_does_nothing(place: Place, decision: Any) -> None:
    journal(place, place.table, {"decision": decision})
    head = latest_snapshot_id(place.handle())
    with pytest.raises(CorruptFileError):
        recover(place.handle())
    assert latest_snapshot_id(place.handle()) == head
    assert place.store.read(f"{place.folder}/x") == b"theirs"


def test_a_journal_with_the_decision_of_other_tables_does_nothing(place: Place) -> None:
    place.forge({"files": {}}, ["db.db/other"])
    journal(place, place.table, {"decision": ID})
    before = place.files()
    with pytest.raises(
        CorruptFileError, match=r"waits for the decision in .*, which is about db.db/other; nothing was"
    ):
        recover(place.handle())
    claims = {path: data for path, data in place.files().items() if "/intent/claim-" not in path}
    assert claims == before
    found = find_decision(place.store, decision_path(place.warehouse.root, ID))
    assert found is not None and found.tables == ("db.db/other",)


def test_a_journal_of_a_table_outside_of_a_database_decides_nothing(place: Place) -> None:
    table = f"{place.folder}/alone"
    make_table(place.store, table, APPEND)
    journal(place, table, {"decision": ID})
    before = place.files()
    with pytest.raises(CorruptFileError, match=r"is not <warehouse>/<database>\.db/<table>; nothing was done"):
        recover(open_table(place.store, table, "main"))
    assert {path: data for path, data in place.files().items() if "/intent/claim-" not in path} == before


def test_a_commit_beside_a_journal_with_the_decision_of_other_tables_is_made(place: Place) -> None:
    place.forge({"files": {}}, ["db.db/other"])
    journal(place, place.table, {"decision": ID})
    handle = place.handle()
    made = committer(handle).commit([message(handle, a_file("g"))]).snapshot
    assert made is not None and latest_snapshot_id(place.handle()) == made.id


@pytest.mark.parametrize("operation", ["../../x", "a/b", "", "é", "a" * 65])
def test_a_lock_with_a_name_that_no_operation_has_does_nothing(place: Place, operation: str) -> None:
    held = {"operation": operation, "host": "h", "machine": None, "pid": 1, "started": None}
    lock = {"version": 1, "owner": held, "kind": "publish-pipeline", "sinceMillis": 0}
    place.store.write(f"{place.table}/intent/intent", json.dumps(lock).encode())
    before = place.files()
    with pytest.raises(CorruptFileError, match="cannot be read"):
        recover(place.handle())
    assert place.files() == before
