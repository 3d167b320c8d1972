"""Mutated small files of a warehouse: every verb works or raises one of our errors."""

from __future__ import annotations

import json
import random
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import paimon_spark
from paimon_spark import Catalog, PaimonError, Table
from paimon_spark.metadata import small_files
from paimon_spark.metadata.retry import now_ms
from tests.harness.left_threads import end_recorders
from tests.harness.real_tables import put

QUICK: Final = 300
EVERY: Final = 10_000
SHAPE: Final = {"clean": ("raw", "orders"), "daily": ("orders", "daily")}
"""job → its source and its sink."""


@dataclass
class Victim:
    """A warehouse in memory with a file of each kind, and its bytes before the mutations."""

    url: str
    root: str
    saved: dict[str, bytes]

    @property
    def catalog(self) -> Catalog:
        return paimon_spark.load_catalog(self.url)

    def table(self, name: str = "orders") -> Table:
        return self.catalog.table(f"shop.{name}")

    def restore(self) -> None:
        """Make the warehouse what it was."""
        fs = MemoryFileSystem()
        for path in [p for p in MemoryFileSystem.store if p.startswith(self.root)]:
            if path not in self.saved or bytes(MemoryFileSystem.store[path].getvalue()) != self.saved[path]:
                del MemoryFileSystem.store[path]
        for path, data in self.saved.items():
            if path not in MemoryFileSystem.store:
                fs.pipe_file(path, data)

    def put(self, path: str, data: bytes) -> None:
        MemoryFileSystem().pipe_file(path, data)


@pytest.fixture
def victim(monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    name = uuid.uuid4().hex
    catalog = paimon_spark.load_catalog(f"memory://{name}/wh")
    catalog.create_database("shop")
    for table in ("raw", "orders", "daily"):
        catalog.create_table(f"shop.{table}", "id BIGINT")
    catalog.lineage.enable()
    put(catalog.table("shop.raw"), 1, 2)
    for job, (source, sink) in SHAPE.items():
        found = catalog.table(f"shop.{source}").scan(**{"lineage.job": job}).to_arrow()
        catalog.table(f"shop.{sink}").write(found, mode="overwrite", **{"lineage.job": job})
    orders = catalog.table("shop.orders")
    put(orders, 3)
    orders.create_tag("kept", time_retained="30 d")
    orders.create_savepoint()
    orders.create_branch("fix")
    put(orders.branch("fix"), 4)
    orders.merge_branch("fix")
    put(orders, 5)
    orders.rollback_to(len(orders.snapshots()) - 1, backup=True)
    catalog.pipeline("shop.daily").branch("dev")
    done = catalog.pipeline("shop.daily").branch("done")
    put(done.table("shop.daily"), 6)
    done.publish()
    catalog.lineage.sync()
    end_recorders()
    store = MemoryFileSystem()
    root = f"/{name}/wh"
    table = f"{root}/shop.db/orders"
    head = json.loads(store.cat_file(f"{table}/snapshot/snapshot-1"))
    statistics = {"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 2, "colStats": {"id": {"colId": 0, "min": "1"}}}
    store.pipe_file(f"{table}/statistics/stat-0", json.dumps(statistics).encode())
    newest = max(
        (p for p in MemoryFileSystem.store if p.startswith(f"{table}/snapshot/snapshot-")),
        key=lambda p: int(p.rpartition("-")[2]),
    )
    head = {**json.loads(store.cat_file(newest)), "statistics": "stat-0"}
    store.pipe_file(newest, json.dumps(head).encode())
    store.pipe_file(f"{table}/consumer/consumer-c", b'{"nextSnapshot": 1}')
    store.pipe_file(f"{table}/changelog/changelog-1", store.cat_file(f"{table}/snapshot/snapshot-1"))
    saved = {p: bytes(f.getvalue()) for p, f in MemoryFileSystem.store.items() if p.startswith(root)}
    yield Victim(f"memory://{name}/wh", root, saved)
    end_recorders()
    for path in [p for p in MemoryFileSystem.store if p.startswith(f"/{name}")]:
        del MemoryFileSystem.store[path]


DEEP: Final = b"[" * 100_000
VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 1.5, float("inf"), float("nan"), "", "x",
    "\ud800", "a\ud800\x1b[2J\nb", "../../x", "/", "..", "\0", "9" * 5000, [], {}, [[]], [None], {"": None},
    {"type": "ROW", "fields": [{}]}, ["delete", "../x"], [1, 2, 3, 4, 5, 6, 7, 8],
)  # fmt: skip
WHOLE: Final = (
    b"", b"null", b"[]", b"{}", b'"x"', b"7", b"-1", b"1e999", b"NaN", DEEP, b'{"version": ' + DEEP, b"\xff\xfe{}",
    b'{"a":' * 50_000, b"9" * 5000, b'"\\ud800"', b"\xed\xa0\x80", b"{" * 3, b"\0" * 8,
)  # fmt: skip


def nested(levels: int) -> Any:
    value: Any = {"type": "INT"}
    for _ in range(levels):
        value = {"type": "ARRAY", "element": value}
    return value


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes of a file with one change, or two."""
    if chance.random() < 0.1:
        return chance.choice(WHOLE)
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, (dict, list)) or chance.random() < 0.15:
        return changed_bytes(data, chance)
    for _ in range(chance.choice((1, 1, 2))):
        change_member(value, chance)
    return json.dumps(value).encode()


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at:]
        case 2:
            return data[:at] + chance.randbytes(1) + data[at + 1 :]
    return data[:at] + data[at : at + chance.randrange(1, 40)] + data[at:]


def change_member(value: Any, chance: random.Random) -> None:
    """Change a random member of an object or a list, at any depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and chance.random() < 0.7:
            value = value[key]
            continue
        break
    match chance.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[chance.choice(("\ud800", "", "version", "id"))] = value.pop(key)
        case 2:
            value[key] = nested(chance.choice((5, 90, 240, 400)))
        case 3 if isinstance(value[key], str):
            value[key] = chance.choice((value[key] + "\n\x1b[31m", value[key][1:], value[key] * 2, value[key].upper()))
        case _:
            value[key] = chance.choice(VALUES)


Verb = Callable[[Victim], object]
VERBS: Final[dict[str, Verb]] = {
    "read": lambda v: v.table().scan().to_arrow(),
    "read a tag": lambda v: v.table().scan(version="kept").to_arrow(),
    "read a branch": lambda v: v.table().branch("fix").scan().to_arrow(),
    "filter": lambda v: v.table().scan(where="id > 1").to_arrow(),
    "snapshots": lambda v: repr(v.table().snapshots()),
    "tags": lambda v: repr(v.table().tags(include_internal=True)),
    "branches": lambda v: repr(v.table().branches(include_internal=True)),
    "savepoints": lambda v: repr(v.table().savepoints()),
    "consumers": lambda v: repr(v.table().consumers()),
    "status": lambda v: str(v.table().status(doctor=True, sizes=True)),
    "history": lambda v: str(v.table().history()),
    "doctor": lambda v: str(v.table().doctor()),
    "diff": lambda v: str(v.table().diff(1, 2)),
    "html": lambda v: v.table().status()._repr_html_(),
    "write": lambda v: put(v.table(), 9),
    "write a branch": lambda v: put(v.table().branch("fix"), 9),
    "delete": lambda v: v.table().delete("id = 1"),
    "add a column": lambda v: v.table().alter(add={"more": "INT"}),
    "compact": lambda v: v.table().compact(),
    "expire": lambda v: v.table().expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms()),
    "orphans": lambda v: v.table().remove_orphan_files(dry_run=True),
    "create a tag": lambda v: v.table().create_tag("new"),
    "delete a tag": lambda v: v.table().delete_tag("kept"),
    "create a branch": lambda v: v.table().create_branch("new"),
    "delete a branch": lambda v: v.table().delete_branch("fix"),
    "merge a branch": lambda v: v.table().merge_branch("fix"),
    "roll back": lambda v: v.table().rollback_to(1),
    "undo": lambda v: v.table().undo(),
    "system table": lambda v: v.catalog.table("shop.orders$files").scan().to_arrow(),
    "options": lambda v: v.catalog.table("shop.orders$options").scan().to_arrow(),
    "tables": lambda v: [v.catalog.list_tables(d) for d in v.catalog.list_databases()],
    "lineage": lambda v: (str(v.catalog.lineage.jobs()), str(v.catalog.lineage.status())),
    "upstream": lambda v: str(v.catalog.lineage.upstream("shop.daily")),
    "impact": lambda v: str(v.catalog.lineage.impact("shop.raw", snapshot=1)),
    "graph": lambda v: v.catalog.lineage.graph("shop.daily").to_mermaid(),
    "sync": lambda v: v.catalog.lineage.sync(),
    "rebuild": lambda v: v.catalog.lineage.rebuild(),
    "releases": lambda v: str(v.catalog.releases()),
    "pipeline branches": lambda v: str(v.catalog.pipeline_branches()),
    "publish": lambda v: v.catalog.pipeline_branch("dev").publish(),
    "undo a release": lambda v: v.catalog.releases()[0].undo(),
    "drop": lambda v: v.catalog.drop_table("shop.orders"),
}


def is_small(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "/bucket-" not in path and not name.endswith((".parquet", ".orc", ".avro"))


def place_of(error: BaseException) -> str:
    """The innermost line of the package that an error came through."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if "/paimon_spark/" in f.filename]
    return f"{lines[-1].filename}:{lines[-1].lineno}" if lines else "no line of the package"


def try_mutations(victim: Victim, seed: int, count: int) -> list[str]:
    """Mutate a file and call a verb, `count` times. What raised another error than ours, one of each kind."""
    small = sorted(filter(is_small, victim.saved))
    json_like = [p for p in small if victim.saved[p][:1] in (b"{", b"[") or len(victim.saved[p]) < 40]
    others = [p for p in small if p not in json_like]
    found: dict[str, str] = {}
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        path = chance.choice(json_like if chance.random() < 0.9 or not others else others)
        data = mutated(victim.saved[path], chance)
        victim.put(path, data)
        verb = chance.choice(list(VERBS))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                VERBS[verb](victim)
        except PaimonError as e:
            if "\n" in str(e) or "\x1b" in str(e):
                found.setdefault(f"{verb}: lines", f"{number}: {path}: {data[:300]!r}: {e!r}")
        except Exception as e:  # noqa: BLE001 - such errors are what the test looks for
            kind = f"{type(e).__name__} at {place_of(e)}"
            found.setdefault(kind, f"{number}: {verb}: {path}: {data[:300]!r}: {e!r}"[:900])
        end_recorders()
        victim.restore()
    return [f"{kind}\n    {what}" for kind, what in found.items()]


def test_all_verbs_work_on_the_warehouse_as_it_is(victim: Victim) -> None:
    failed = {}
    for name, verb in VERBS.items():
        try:
            verb(victim)
        except PaimonError as e:
            failed[name] = str(e)
        end_recorders()
        victim.restore()
    assert failed == {}


def test_only_our_errors_leave_the_api_for_mutated_small_files(victim: Victim) -> None:
    assert try_mutations(victim, 1, QUICK) == []


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(2, 12))
def test_only_our_errors_leave_the_api_for_many_mutations(victim: Victim, seed: int) -> None:
    assert try_mutations(victim, seed, EVERY // 10) == []
