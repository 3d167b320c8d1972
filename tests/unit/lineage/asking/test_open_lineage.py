"""OpenLineage events of jobs: their datasets, columns and runs, each sent once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openlineage.client")

from openlineage.client import OpenLineageClient
from openlineage.client.transport.console import ConsoleConfig, ConsoleTransport
from openlineage.client.transport.file import FileConfig, FileTransport

from paimon_spark.errors import InvalidInputError, StorageError
from paimon_spark.lineage.asking.graph import Node, load
from paimon_spark.lineage.asking.open_lineage import ChangedJob, changes, dataset_name, forget_gone, send
from paimon_spark.lineage.index.job_registry import claim_name
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT, rows_of
from paimon_spark.types import BIGINT, INT, STRING, DataField, DataType, RowType
from tests.harness.lineage_index import MemoryIndex

ORDERS, CLEAN = TableRef("shop", "orders"), TableRef("shop", "clean$branch_fix")


class World:
    """A warehouse with a job, the columns of its tables, and a client that writes to a file."""

    def __init__(self, folder: Path) -> None:
        self.index = MemoryIndex().switch_on()
        self.columns = {
            ORDERS: columns(id=INT, name=STRING),
            CLEAN: columns(id=INT),
        }
        self.log = folder / "events.json"
        config = FileConfig(log_file_path=str(self.log), append=True)
        self.client = OpenLineageClient(transport=FileTransport(config))

    def batch(self, barrier: int, job: str = "clean", sink: TableRef = CLEAN) -> None:
        provenance = Provenance(job, barrier, (SourceRange(ORDERS, after=barrier, last=barrier + 10),))
        self.index.upsert(rows_of(provenance, sink, barrier + 1))

    def changes(self, **options: Any) -> list[ChangedJob]:
        def found(node: Node) -> RowType | None:
            return self.columns.get(node.ref)

        return changes(load([self.index]), self.index.warehouse, found, **options)

    def tell(self, **options: Any) -> list[dict[str, Any]]:
        """What a call sends, as the file has it."""
        before = len(self.sent())
        send(self.client, self.index.warehouse, self.changes(**options))
        return self.sent()[before:]

    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


def columns(**types: DataType) -> RowType:
    return RowType(fields=tuple(DataField(i, n, t, f"the {n}") for i, (n, t) in enumerate(types.items())))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.batch(0)
    return world


def test_an_event_names_the_job_its_datasets_their_columns_and_snapshots(world: World) -> None:
    claim_name(world.index.warehouse, "clean", "query-1")
    world.batch(1)
    (event,) = world.tell()
    root = world.index.warehouse.url
    assert event["eventType"] == "RUNNING"
    assert event["job"]["namespace"] == root and event["job"]["name"] == "clean"
    assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    (source,), (sink,) = event["inputs"], event["outputs"]
    scheme, _, path = root.partition("://")
    assert f"{source['namespace']}{source['name']}" == f"{scheme}://{path}/shop.db/orders"
    assert sink["name"].endswith("/shop.db/clean/branch/branch-fix")
    assert source["facets"]["version"]["datasetVersion"] == "11"
    assert sink["facets"]["version"]["datasetVersion"] == "2"
    fields = source["facets"]["schema"]["fields"]
    assert [(f["name"], f["type"], f["description"]) for f in fields] == [
        ("id", "INT", "the id"),
        ("name", "STRING", "the name"),
    ]
    assert sink["facets"]["symlinks"]["identifiers"] == [
        {"namespace": root, "name": "shop.clean$branch_fix", "type": "TABLE"}
    ]


def test_a_batch_job_is_told_as_complete(world: World) -> None:
    claim_name(world.index.warehouse, "clean", None)
    (event,) = world.tell()
    assert event["eventType"] == "COMPLETE"
    assert event["job"]["facets"]["jobType"]["processingType"] == "BATCH"


def test_what_was_sent_is_not_sent_again_however_many_batches_follow(world: World) -> None:
    assert len(world.tell()) == 1
    assert world.tell() == []
    for barrier in range(1, 50):
        world.batch(barrier)
    assert world.tell() == []


def test_without_a_client_nothing_is_remembered(world: World) -> None:
    assert len(world.changes()) == len(world.changes()) == 1
    assert len(world.tell()) == 1


def test_a_new_job_and_a_new_sink_are_told(world: World) -> None:
    world.tell()
    world.batch(0, job="other")
    assert [e["job"]["name"] for e in world.tell()] == ["other"]
    world.batch(1, job="clean", sink=TableRef("shop", "more"))
    (event,) = world.tell()
    assert event["job"]["name"] == "clean" and len(event["outputs"]) == 2


@pytest.mark.parametrize(
    "other",
    [
        columns(id=BIGINT, name=STRING),
        columns(id=INT),
        columns(id=INT, name=STRING, more=INT),
        columns(ident=INT, name=STRING),
        None,
    ],
)
def test_other_columns_of_a_table_are_told(world: World, other: RowType | None) -> None:
    world.tell()
    if other is None:
        del world.columns[ORDERS]
    else:
        world.columns[ORDERS] = other
    (event,) = world.tell()
    assert ("schema" in event["inputs"][0]["facets"]) == (other is not None)
    assert world.tell() == []


def test_each_change_is_a_run_of_its_own_and_its_id_is_always_the_same(world: World) -> None:
    assert world.changes()[0].event.run.runId == world.changes(now_ms=5)[0].event.run.runId
    first = world.tell()[0]["run"]["runId"]
    shape = world.columns[ORDERS]
    world.columns[ORDERS] = columns(id=BIGINT)
    second = world.tell()[0]["run"]["runId"]
    world.columns[ORDERS] = shape
    assert len({first, second, world.tell()[0]["run"]["runId"]}) == 3


def test_what_was_sent_since_a_moment_is_sent_again_under_the_same_run(world: World) -> None:
    (first,) = world.tell(now_ms=1000)
    assert world.tell(since_ms=1001) == []
    (again,) = world.tell(since_ms=1000, now_ms=2000)
    assert again["run"] == first["run"]
    assert again["eventTime"].startswith("1970-01-01T00:00:02")


def test_what_the_client_did_not_take_is_sent_by_the_next_call(world: World) -> None:
    world.batch(0, job="zeta")
    taken: list[Any] = []

    class Failing:
        def emit(self, event: Any) -> None:
            if taken:
                raise ConnectionError("away")
            taken.append(event)

    with pytest.raises(ConnectionError):
        send(Failing(), world.index.warehouse, world.changes())
    assert [e["job"]["name"] for e in world.tell()] == ["zeta"]


def test_a_job_that_was_forgotten_and_comes_back_is_told_again(world: World) -> None:
    world.tell()
    for table in (SOURCE_JOB, SINK_JOB, SOURCE_SNAPSHOT, SINK_SNAPSHOT):
        world.index.delete(table, "job = 'clean'")
    assert world.tell() == []
    forget_gone(load([world.index]), world.index.warehouse)
    world.batch(0)
    assert len(world.tell()) == 1


def test_a_file_of_ours_that_cannot_be_understood_makes_one_more_event(world: World) -> None:
    world.tell()
    warehouse = world.index.warehouse
    (info,) = warehouse.store.list(f"{warehouse.lineage_dir}/open-lineage")
    warehouse.store.write(f"{warehouse.lineage_dir}/open-lineage/{info.name}", b"[]")
    assert len(world.tell()) == 1
    assert world.tell() == []


def test_jobs_of_other_warehouses_only_are_not_told() -> None:
    here, there = MemoryIndex().switch_on(), MemoryIndex().switch_on()
    there.upsert(rows_of(Provenance("far", 0, (SourceRange(ORDERS, last=1),)), CLEAN, 1))
    assert changes(load([here, there]), here.warehouse, lambda _: None) == []


def test_the_console_transport_takes_the_events(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = OpenLineageClient(transport=ConsoleTransport(ConsoleConfig()))
    with caplog.at_level("INFO"):
        send(client, world.index.warehouse, world.changes())
    assert '"clean"' in caplog.text


@pytest.mark.parametrize("name", ['a "quoted" <job>', "数据", "x/y.z", "j" * 300])
def test_jobs_of_any_name_are_told_once(world: World, name: str) -> None:
    world.tell()
    world.batch(0, job=name)
    assert [e["job"]["name"] for e in world.tell()] == [name]
    assert world.tell() == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///data/my%20wh", ("file", "/data/my wh/db.db/t")),
        ("s3://bucket/a/wh", ("s3://bucket", "a/wh/db.db/t")),
        ("s3a://bucket/wh", ("s3://bucket", "wh/db.db/t")),
        ("gs://bucket/wh", ("gs://bucket", "wh/db.db/t")),
        ("hdfs://name:8020/wh", ("hdfs://name:8020", "/wh/db.db/t")),
        ("abfss://c@s.dfs.core.windows.net/wh", ("abfss://c@s.dfs.core.windows.net", "wh/db.db/t")),
    ],
)
def test_datasets_are_named_as_openlineage_names_files(url: str, expected: tuple[str, str]) -> None:
    assert dataset_name(url, "/db.db/t") == expected


def test_without_the_package_the_error_says_what_to_install(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client.event_v2", None)
    with pytest.raises(InvalidInputError, match=r"paimon-spark\[openlineage\]"):
        world.changes()


def test_a_warehouse_that_cannot_be_written_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise StorageError(f"{path}: no permission")

    found = world.changes()
    monkeypatch.setattr(type(world.index.warehouse.store), "write", lambda self, path, data: refuse(path, data))
    with pytest.raises(StorageError, match="no permission"):
        send(world.client, world.index.warehouse, found)
