"""Forgeries by somebody who may write a table, or a folder beside it: each by its name.

Each names files of the victims of `harness.victims`, or tries to make verbs fail in a way of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from paimon_spark.format import binary_row
from paimon_spark.types import STRING
from tests.harness.victims import Place

ID: Final = "0123456789abcdef0123456789abcdef"
"""Of a decision."""
OPERATION: Final = "abc"
"""Of a lock."""
FAR: Final = 2**62
"""An id of a snapshot or a schema."""
TRICKS: Final = ("up", "absolute", "url", "encoded", "backslash", "nul", "parent", "bucket up", "dots", "long")


class Forgery(NamedTuple):
    """One forgery.

    Attributes:
        forge: rewrites files of the warehouse.
        table: the table that is attacked.
        lists: the table lists the victim's folder as one of its own, so that its files are read there; a catalog that
            allows nothing refuses that.
        unseen: no verb is to fail or to warn, as readers take the forged bytes for what they are.
    """

    forge: Callable[[Place], None]
    table: str = "db.t"
    lists: bool = False
    unseen: bool = False


def trick(place: Place, name: str, depth: int, file: str = "data-1.parquet") -> str:
    """A name of a file of a victim, as it would be reached from a directory so deep in the table."""
    up = "../" * (depth + 1) + f"victim/{file}"
    return {
        "up": up,
        "absolute": f"{place.root}/victim/{file}",
        "url": f"{place.url}/victim/{file}",
        "encoded": up.replace("..", "%2e%2e").replace("/", "%2f"),
        "backslash": up.replace("/", "\\"),
        "nul": f"{up}\0.parquet",
        "parent": "..",
        "bucket up": f"bucket-0/../{up}",
        "dots": ".",
        "long": "../" * 300 + f"{place.root.lstrip('/')}/victim/{file}",
    }[name]


def _root(table: str) -> str:
    return f"wh/db.db/{table[3:]}"


def _in_entries(change: Callable[[dict[str, Any]], None], table: str = "db.t") -> Callable[[Place], None]:
    return lambda place: place.change_records(f"{_root(table)}/manifest/manifest-", change, but="list-")


def _in_lists(change: Callable[[dict[str, Any]], None], table: str = "db.t") -> Callable[[Place], None]:
    return lambda place: place.change_records(f"{_root(table)}/manifest/manifest-list-", change)


def _in_index_manifests(change: Callable[[dict[str, Any]], None]) -> Callable[[Place], None]:
    return lambda place: place.change_records("wh/db.db/a/manifest/index-manifest-", change)


def _in_snapshots(table: str = "db.t", **values: Any) -> Callable[[Place], None]:
    """Other values in all snapshots, those in tags, branches and changelogs too."""

    def forge(place: Place) -> None:
        root = _root(table)
        for part in ("snapshot/snapshot-", "tag/tag-", "changelog/changelog-", "branch/branch-fix/snapshot/snapshot-"):
            place.change_json(f"{root}/{part}", lambda raw: raw.update(values))

    return forge


def _in_schemas(
    change: Callable[[Place, dict[str, Any]], None], table: str = "db.t", below: str = ""
) -> Callable[[Place], None]:
    return lambda place: place.change_json(f"{_root(table)}/{below}schema/schema-", lambda raw: change(place, raw))


def _options(table: str = "db.t", below: str = "", **options: str) -> Callable[[Place], None]:
    """Options in all schemas: `_` stands for `-`, `__` for a dot, and {url}, {root} for those of the place."""

    def change(place: Place, raw: dict[str, Any]) -> None:
        for key, value in options.items():
            name = key.replace("__", ".").replace("_", "-")
            raw["options"][name] = value.format(url=place.url, root=place.root)

    return _in_schemas(change, table, below)


def _file(path: str, data: bytes | dict[str, Any] | list[Any], table: str = "db.t") -> Callable[[Place], None]:
    """A file of the table; a path from the root of the place begins with a slash."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return lambda place: place.write(path[1:] if path.startswith("/") else f"{_root(table)}/{path}", raw)


def _both(*forge: Callable[[Place], None]) -> Callable[[Place], None]:
    def forged(place: Place) -> None:
        for one in forge:
            one(place)

    return forged


def _data_name(name: str, table: str = "db.t") -> Callable[[Place], None]:
    return lambda p: _in_entries(lambda e: e["_FILE"].update(_FILE_NAME=trick(p, name, 2)), table)(p)


def _manifest_name(name: str) -> Callable[[Place], None]:
    return lambda p: _in_lists(lambda row: row.update(_FILE_NAME=trick(p, name, 1, "manifest-1")))(p)


def _index_name(name: str) -> Callable[[Place], None]:
    return lambda p: _in_index_manifests(lambda e: e.update(_FILE_NAME=trick(p, name, 1, "index/index-1")))(p)


def _external(url: Callable[[Place], str]) -> Callable[[Place], None]:
    return lambda p: _in_entries(lambda e: e["_FILE"].update(_EXTERNAL_PATH=url(p)))(p)


def _external_of_old(url: Callable[[Place], str]) -> Callable[[Place], None]:
    """Let a file that the newest snapshot has not, which expiry deletes, be one elsewhere."""

    def forge(place: Place) -> None:
        gone: set[str] = set()
        _in_entries(lambda e: gone.add(e["_FILE"]["_FILE_NAME"]) if e["_KIND"] == 1 else None)(place)
        first, elsewhere = min(gone), url(place)

        def change(entry: dict[str, Any]) -> None:
            if entry["_FILE"]["_FILE_NAME"] == first:
                entry["_FILE"].update(_FILE_NAME=elsewhere.rpartition("/")[2], _EXTERNAL_PATH=elsewhere)

        _in_entries(change)(place)

    return forge


def _victim_file(place: Place) -> str:
    return f"{place.url}/victim/bucket-0/data-1.parquet"


def _table_file(place: Place) -> str:
    (path,) = place.named("wh/other.db/t/p=a/bucket-0/data-")
    return f"{place.url}/{path}"


def _row(text: str) -> bytes:
    return binary_row.encode([text], [STRING])


def _partition(text: str) -> Callable[[Place], None]:
    return _in_entries(lambda entry: entry.update(_PARTITION=_row(text)))


def _bucket(number: int) -> Callable[[Place], None]:
    return _in_entries(lambda entry: entry.update(_BUCKET=number))


def _snapshot_name(key: str, name: str) -> Callable[[Place], None]:
    return lambda place: _in_snapshots("db.t", **{key: trick(place, name, 1, "manifest-1")})(place)


def _data_file_of_vectors(entry: dict[str, Any]) -> None:
    for found in entry["_DELETIONS_VECTORS_RANGES"]:
        found["f0"] = UP


def _lock(operation: str = OPERATION) -> dict[str, Any]:
    owner = {"operation": operation, "host": "h", "machine": None, "pid": 1, "started": None}
    return {"version": 1, "owner": owner, "kind": "publish-pipeline", "sinceMillis": 0}


def _journal(*steps: list[Any], **fields: Any) -> Callable[[Place], None]:
    """The lock and the journal of a process that is dead."""
    change = {"version": 1, "kind": "delete-branch", "label": "forged", "steps": list(steps), "released": [], **fields}
    return _both(_file("intent/intent", _lock()), _file(f"intent/plan-{OPERATION}", change))


def _released(key: str, value: str) -> Callable[[Place], None]:
    """A journal that releases a snapshot with a forged name in it."""

    def forge(place: Place) -> None:
        snapshot = json.loads(place.read("wh/db.db/t/snapshot/snapshot-1"))
        snapshot[key] = value
        root = {"kind": "tag", "branch": "main", "name": "gone", "snapshot": snapshot}
        _journal(["delete", "tag/tag-gone"], released=[root])(place)

    return forge


def _decision(record: Any, tables: Any = ("db.db/t",), name: str = ID) -> Callable[[Place], None]:
    raw = {"version": 1, "runs": True, "tables": tables, "record": record}
    return _file(f"/wh/paimon.db/_pipelines/changes/{name}", raw)


def _fork(**fields: Any) -> Callable[[Place], None]:
    return lambda place: place.change_json("wh/db.db/t/branch/branch-fix/FORK", lambda raw: raw.update(fields))


def _branch_record(**fields: Any) -> Callable[[Place], None]:
    return lambda place: place.change_json("wh/paimon.db/_pipelines/branches/dev.json", lambda raw: raw.update(fields))


def _release_record(**fields: Any) -> Callable[[Place], None]:
    return lambda place: place.change_json("wh/paimon.db/_pipelines/releases/1.json", lambda raw: raw.update(fields))


def _copied(old: str, new: str) -> Callable[[Place], None]:
    """A copy of a file of the table below another name."""
    return lambda place: place.write(f"wh/db.db/t/{new}", place.read(f"wh/db.db/t/{old}"))


def _far_snapshot(place: Place) -> None:
    """A head whose id is far from the others."""
    raw = json.loads(place.read("wh/db.db/t/snapshot/snapshot-1"))
    place.write(f"wh/db.db/t/snapshot/snapshot-{FAR}", json.dumps({**raw, "id": FAR}).encode())
    place.write("wh/db.db/t/snapshot/LATEST", str(FAR).encode())


def _renamed_column(name: str) -> Callable[[Place], None]:
    def change(_: Place, raw: dict[str, Any]) -> None:
        raw["fields"] = [{**f, "name": name} if f["name"] == "p" else f for f in raw["fields"]]
        raw["partitionKeys"] = [name]
        raw["primaryKeys"] = [name if k == "p" else k for k in raw["primaryKeys"]]

    return _in_schemas(change)


UP: Final = "../../../victim"
"""The victim beside the warehouse, from the table."""
FROM_BRANCH: Final = "x/../../../../../victim"
"""The same from the directory of a branch, as a name of one, where there is a directory of a branch x."""
_SNAPSHOT_NAMES: Final = (
    "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics",
)  # fmt: skip

DATA_FILES: Final[dict[str, Forgery]] = {
    **{f"data file {name}": Forgery(_data_name(name)) for name in TRICKS},
    "data file up, without keys": Forgery(_data_name("up", "db.a"), "db.a"),
    "extra file": Forgery(lambda p: _in_entries(lambda e: e["_FILE"].update(_EXTRA_FILES=[trick(p, "up", 2)]))(p)),
    "extra file beside": Forgery(_in_entries(lambda e: e["_FILE"].update(_EXTRA_FILES=["..", ".index"]))),
    "part of a changelog": Forgery(
        _in_entries(lambda e: e["_FILE"].update(_FILE_NAME="compacted-changelog-x$../victim-9.cc-parquet"))
    ),
    "part of a changelog elsewhere": Forgery(
        _in_entries(lambda e: e["_FILE"].update(_FILE_NAME="compacted-changelog-x$-7-9-0-9.cc-parquet"))
    ),
    **{
        f"partition {text!r}": Forgery(_partition(text))
        for text in ("../victim", "..", f"/{UP}", "%2e%2e%2fvictim", "a\0", "..\\victim", "a/../../../victim")
    },
    "partition of another size": Forgery(_in_entries(lambda e: e.update(_PARTITION=b"\0\0\0\x09abc"))),
    **{f"bucket {number}": Forgery(_bucket(number)) for number in (-1, -2, -7, 2**31 - 1, -(2**31))},
    "schema of a file": Forgery(_in_entries(lambda e: e["_FILE"].update(_SCHEMA_ID=FAR))),
    "negative schema of a file": Forgery(_in_entries(lambda e: e["_FILE"].update(_SCHEMA_ID=-1))),
    "numbers of a file": Forgery(_in_entries(lambda e: e["_FILE"].update(_ROW_COUNT=FAR, _FILE_SIZE=FAR))),
    "level of a file": Forgery(_in_entries(lambda e: e["_FILE"].update(_LEVEL=2**31 - 1))),
}
METADATA: Final[dict[str, Forgery]] = {
    **{f"manifest {name}": Forgery(_manifest_name(name)) for name in TRICKS},
    **{
        f"{key} {name}": Forgery(_snapshot_name(key, name))
        for key in _SNAPSHOT_NAMES
        for name in ("up", "absolute", "backslash", "nul", "parent")
    },
    **{f"index file {name}": Forgery(_index_name(name), "db.a") for name in TRICKS},
    "index file without a name": Forgery(_in_index_manifests(lambda e: e.update(_FILE_NAME="")), "db.a"),
    "data file of a vector": Forgery(_in_index_manifests(_data_file_of_vectors), "db.a", unseen=True),
    "bucket of a vector": Forgery(_in_index_manifests(lambda e: e.update(_BUCKET=-5)), "db.a", unseen=True),
    "partition of a vector": Forgery(_in_index_manifests(lambda e: e.update(_PARTITION=_row(UP))), "db.a", unseen=True),
    "kind of an index": Forgery(_in_index_manifests(lambda e: e.update(_INDEX_TYPE="../victim")), "db.a", unseen=True),
    "schema of a snapshot": Forgery(_in_snapshots(schemaId=-7), unseen=True),
    "great schema of a snapshot": Forgery(_in_snapshots(schemaId=FAR), unseen=True),
    "id of a snapshot": Forgery(_in_snapshots(id=FAR)),
    "negative id of a snapshot": Forgery(_in_snapshots(id=-3)),
    "user of a snapshot": Forgery(_in_snapshots(commitUser=UP), unseen=True),
    "properties of a snapshot": Forgery(_in_snapshots(properties={UP: UP}), unseen=True),
}
EXTERNAL: Final[dict[str, Forgery]] = {
    "external path": Forgery(_external(_victim_file)),
    "external path of a table": Forgery(_external(_table_file)),
    "external path, upwards": Forgery(_external(lambda p: f"{p.url}/wh/db.db/t/../../../victim/data-1.parquet")),
    "external path, encoded": Forgery(_external(lambda p: f"{p.url}/wh/%2e%2e/victim/data-1.parquet")),
    "external path, relative": Forgery(_external(lambda p: f"{UP}/data-1.parquet")),
    "external path, NUL": Forgery(_external(lambda p: f"{_victim_file(p)}\0")),
    "external path, empty": Forgery(_external(lambda p: "")),
    "external path of old files": Forgery(_external_of_old(_victim_file)),
    "external path of old files, of a table": Forgery(_external_of_old(_table_file)),
    "external path of old files, listed": Forgery(
        _both(_external_of_old(_victim_file), _options(data_file__external_paths="{url}/victim")), lists=True
    ),
    "external path of old files, all listed": Forgery(
        _both(_external_of_old(_table_file), _options(data_file__external_paths="{url}")), lists=True
    ),
    "external path, listed": Forgery(
        _both(_external(_victim_file), _options(data_file__external_paths="{url}/victim")), lists=True
    ),
    "external path of an index": Forgery(
        lambda p: _in_index_manifests(lambda e: e.update(_EXTERNAL_PATH=f"{p.url}/victim/index/index-1"))(p), "db.a"
    ),
    "external path of an index, listed": Forgery(
        lambda p: _both(
            _in_index_manifests(lambda e: e.update(_EXTERNAL_PATH=f"{p.url}/victim/index/index-1")),
            _options("db.a", data_file__external_paths="{url}/victim", global_index__external_path="{url}/victim"),
        )(p),
        "db.a",
        lists=True,
    ),
}
SCHEMAS: Final[dict[str, Forgery]] = {
    "external paths": Forgery(_options(data_file__external_paths="{url}/victim,{url}/wh/other.db"), lists=True),
    "external paths of all": Forgery(_options(data_file__external_paths="{url}"), lists=True),
    **{
        f"path directory {directory}": Forgery(_options(data_file__path_directory=directory))
        for directory in (UP, "{root}/victim", "{url}/victim", "..", "a/../../../../victim", "..\\victim", "a\0")
    },
    "path directory inside": Forgery(_options(data_file__path_directory="branch")),
    "prefixes": Forgery(_options(data_file__prefix=f"{UP}/data-", changelog_file__prefix=f"{UP}/data-")),
    "prefix of parents": Forgery(_options(data_file__prefix="../../../victim/", table="db.a"), "db.a"),
    "path": Forgery(_options(path="{url}/victim", location="{url}/victim", warehouse="{url}"), unseen=True),
    "branch": Forgery(_options(branch="../../../../victim"), unseen=True),
    "fallback branch": Forgery(_options(scan__fallback_branch="../../../../victim")),
    "catalog options": Forgery(
        _options(
            **{"catalog.allowed-external-paths": "{url}", "metastore": "jdbc", "uri": "jdbc:sqlite:{root}/victim/x"}
        ),
        unseen=True,
    ),
    "formats": Forgery(_options(file__format="../../victim", manifest__format="../victim")),
    "compression": Forgery(_options(file__compression="../victim", manifest__compression="/victim")),
    "tags": Forgery(
        _options(
            tag__automatic_creation="process-time", tag__creation_period="daily", tag__default_time_retained="1 ms"
        ),
        unseen=True,
    ),
    "callbacks": Forgery(_options(commit__callbacks=UP, tag__callbacks=UP), unseen=True),
    "retention": Forgery(
        _options(snapshot__num_retained__max="1", snapshot__num_retained__min="1", snapshot__time_retained="1 ms"),
        unseen=True,
    ),
    "schemas of the branch": Forgery(_options(below="branch/branch-fix/", data_file__path_directory=UP)),
    "id of a schema": Forgery(_in_schemas(lambda p, raw: raw.update(id=-1))),
    "great id of a schema": Forgery(_copied("schema/schema-0", f"schema/schema-{2**70}"), unseen=True),
    **{
        f"partition column {name!r}": Forgery(_renamed_column(name))
        for name in (UP, "..", "/victim", "a\0b", "", "p=a/..", "%2e%2e")
    },
    "unknown partition column": Forgery(_in_schemas(lambda p, raw: raw.update(partitionKeys=[UP]))),
}
REFS: Final[dict[str, Forgery]] = {
    "main branch": Forgery(_both(_file("MAIN-BRANCH", FROM_BRANCH.encode()), _file("branch/branch-x/file", b""))),
    "main branch above": Forgery(_file("MAIN-BRANCH", b"..")),
    "main branch nowhere": Forgery(_file("MAIN-BRANCH", b"nowhere")),
    "main branch of NUL": Forgery(_file("MAIN-BRANCH", b"a\0b")),
    "guards of a fork": Forgery(_fork(guards={"main": f"../{UP}/tag/tag-v0"}), unseen=True),
    "guards on other branches": Forgery(_fork(guards={"../../../../victim": "v0", "..": "v0"}), unseen=True),
    "parent of a fork": Forgery(
        _both(_fork(parent=FROM_BRANCH, guards={FROM_BRANCH: "v0"}), _file("branch/branch-x/file", b""))
    ),
    "tag of a fork": Forgery(_fork(tag=f"../{UP}/tag-v0"), unseen=True),
    "snapshot of a fork": Forgery(_fork(snapshotId=-7), unseen=True),
    "great snapshot of a fork": Forgery(_fork(snapshotId=FAR), unseen=True),
    "branch .. ": Forgery(_file("branch/branch-../schema/schema-0", b"{}"), unseen=True),
    "branch of dots": Forgery(
        _both(
            _copied("schema/schema-0", "branch/branch-..../schema/schema-0"),
            _copied("snapshot/snapshot-1", "branch/branch-..../snapshot/snapshot-1"),
        )
    ),
    "branch with a backslash": Forgery(_copied("schema/schema-0", "branch/branch-..\\victim/schema/schema-0")),
    "branch encoded": Forgery(_copied("schema/schema-0", "branch/branch-%2e%2e%2fvictim/schema/schema-0")),
    "tag with a backslash": Forgery(_copied("snapshot/snapshot-1", "tag/tag-..\\victim")),
    "tag encoded": Forgery(_copied("snapshot/snapshot-1", "tag/tag-%2e%2e%2fvictim"), unseen=True),
    "tag without a snapshot": Forgery(_file("tag/tag-v1", b"{}")),
    "guard of a victim": Forgery(_copied("snapshot/snapshot-1", "tag/tag-branch-guard-.."), unseen=True),
    "release tag": Forgery(_copied("snapshot/snapshot-1", "tag/tag-release-999999999999999999999"), unseen=True),
    "savepoint": Forgery(_copied("snapshot/snapshot-1", f"tag/tag-savepoint-{10**30}"), unseen=True),
    "hints": Forgery(_both(_file("snapshot/LATEST", b"../../victim"), _file("snapshot/EARLIEST", b"-1")), unseen=True),
    "great hints": Forgery(
        _both(_file("snapshot/LATEST", b"9" * 5000), _file("snapshot/EARLIEST", b"9" * 30)), unseen=True
    ),
    "snapshot far away": Forgery(_far_snapshot),
    "snapshot beyond": Forgery(_copied("snapshot/snapshot-1", f"snapshot/snapshot-{2**70}"), unseen=True),
    "consumer": Forgery(_file("consumer/consumer-..\\victim", {"nextSnapshot": -(2**63)})),
    "consumer at nothing": Forgery(_file("consumer/consumer-me", b"{}")),
    "consumer beyond": Forgery(_file("consumer/consumer-me", {"nextSnapshot": 2**63})),
    "note of the undo": Forgery(
        lambda p: p.change_json(
            p.named("wh/db.db/t/branch/branch-main_backup_")[0].partition("/UNDO")[0].partition("/FORK")[0] + "/UNDO",
            lambda raw: raw.update(head=[10**30, UP, UP], kept=[-1, UP, UP], tags=[UP], schema=-1),
        ),
        unseen=True,
    ),
}
JOURNALS: Final[dict[str, Forgery]] = {
    **{
        f"step {step[0]} of {step[1]}": Forgery(_journal(step))
        for step in (
            ["put", f"{UP}/notes.txt", "forged"],
            ["put", "tag/../../../../victim/notes.txt", "forged"],
            ["put", "/victim/notes.txt", "forged"],
            ["put-new", f"{UP}/new", "forged", f"{UP}/aside"],
            ["put-new", "tag/tag-new", "forged", f"../{UP}/aside"],
            ["delete", f"{UP}/notes.txt"],
            ["delete", "snapshot\\..\\..\\victim"],
            ["delete-files", "tag/tag-v1", f"{UP}/notes.txt"],
            ["delete-tree", UP],
            ["delete-tree", ".."],
            ["delete-tree", ""],
            ["delete-tree", "bucket-0"],
            ["set-aside", "snapshot", f"{UP}/snapshot"],
            ["set-aside", f"{UP}/snapshot", "snapshot"],
            ["rename-tree", UP, "branch/branch-mine"],
            ["rename-tree", "branch/branch-fix", f"{UP}/taken"],
            ["if-snapshots", "snapshot", ["delete", f"{UP}/notes.txt"]],
            ["if-snapshots", f"{UP}/snapshot", ["delete", "tag/tag-v1"]],
            ["move-late", f"{UP}/snapshot", "snapshot", "", ""],
            ["create-on-server", "../victim", ""],
            ["run", "rm -rf victim"],
        )
    },
    **{
        f"released {key}": Forgery(_released(key, f"../{UP}/manifest-1"))
        for key in ("baseManifestList", "deltaManifestList", "indexManifest", "statistics")
    },
    "journal of an unknown decision": Forgery(
        _journal(["delete-tree", "snapshot"], version=2, decision=ID), unseen=True
    ),
    "journal of a decision elsewhere": Forgery(
        _journal(["delete-tree", "snapshot"], version=2, decision="../../../../victim/new")
    ),
    "journal of the decision of others": Forgery(
        _both(_journal(["delete-tree", "snapshot"], version=2, decision=ID), _decision({}, ["other.db/t"]))
    ),
    "journal of no JSON": Forgery(
        _both(_file("intent/intent", _lock()), _file(f"intent/plan-{OPERATION}", b"[" * 9999))
    ),
    "lock of an operation elsewhere": Forgery(_file("intent/intent", _lock(f"../{UP}/notes.txt"))),
    "lock of no operation": Forgery(_file("intent/intent", _lock(""))),
    "lock of NUL": Forgery(_file("intent/intent", _lock("a\0b"))),
    "lock of no JSON": Forgery(_file("intent/intent", b"\xff")),
    "claim elsewhere": Forgery(
        _both(_file("intent/intent", _lock()), _file(f"intent/claim-{OPERATION}-9", {"owner": {"operation": UP}}))
    ),
}
_VICTIM_JSON: Final = "../victim/1.json"
RECORDS: Final[dict[str, Forgery]] = {
    **{
        f"decision to {'delete' if values is None else 'write'} {path}": Forgery(_decision({"files": {path: values}}))
        for path in (_VICTIM_JSON, "paimon.db/_pipelines/releases/../../../../victim/1.json", "db.db/victim/1.json")
        for values in (None, {"version": 1, "id": 1, "tables": {}})
    },
    "decision about a victim": Forgery(_decision({}, ["../victim"])),
    "decision about another place": Forgery(_decision({}, ["db.db/../../victim"])),
    "decision of another name": Forgery(_decision({}, [], "..%2Fvictim"), unseen=True),
    "tables of a pipeline branch": Forgery(_branch_record(tables={"../../victim.t": 1})),
    "other tables of a pipeline branch": Forgery(_branch_record(tables={"other.t": 1}), unseen=True),
    "name of a pipeline branch": Forgery(_branch_record(name="../../victim")),
    "jobs of a pipeline branch": Forgery(_branch_record(jobs=["../../victim"]), unseen=True),
    "tables of a release": Forgery(_release_record(tables={"../../victim.t": 1})),
    "backups of a release": Forgery(_release_record(backups={"db.t": "../../../../victim"})),
    "backups of a release that are others": Forgery(_release_record(backups={"db.t": "fix"})),
    "branch of a release": Forgery(_release_record(branch="../../victim"), unseen=True),
    "release beyond": Forgery(_file("/wh/paimon.db/_pipelines/releases/99999999999999999999.json", {"version": 1})),
    "file beside records": Forgery(_file("/wh/paimon.db/_pipelines/branches/..%2Fx.json", {"version": 1})),
}


def _lineage(prefix: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Place], None]:
    return lambda place: place.change_json(f"wh/paimon.db/_lineage/{prefix}", change)


LINEAGE: Final[dict[str, Forgery]] = {
    "name of a job": Forgery(_lineage("jobs/load.json", lambda raw: raw.update(job=f"../{UP}", name=UP)), unseen=True),
    "sink of lineage": Forgery(
        _lineage("sinks/", lambda raw: raw.update({key: UP for key in raw if key != "version"})), unseen=True
    ),
    "walk of lineage": Forgery(
        _lineage("walked/", lambda raw: raw.update({key: UP for key in raw if key != "version"})), unseen=True
    ),
}
FORGERIES: Final[dict[str, Forgery]] = {
    **DATA_FILES, **METADATA, **EXTERNAL, **SCHEMAS, **REFS, **JOURNALS, **RECORDS, **LINEAGE,
}  # fmt: skip


SAME: Final = frozenset(
    name
    for name in FORGERIES
    for kind in ("data file", "manifest", "index file", *_SNAPSHOT_NAMES)
    if name.startswith(f"{kind} ") and name.removeprefix(f"{kind} ") in TRICKS[2:]
)
"""Forgeries that the same rule refuses as others."""


def digest(text: str) -> int:
    """A number that is the same in each run."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
