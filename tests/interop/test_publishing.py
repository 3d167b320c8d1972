"""Branches with new columns, deletion vectors and changelogs become main; Java and pypaimon read them there.

Each is published by `merge_branch` and by `replace_main`, after which the others find the history by the branch's name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from tests.harness.rows import difference
from tests.harness.table_files import missing_files
from tests.interop import our_hand
from tests.interop.comparing import disagreement
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon
from tests.interop.table_script import Row, delete

pytestmark = pytest.mark.interop

VECTORS = {"deletion-vectors.enabled": "true"}
KEYED: dict[str, Any] = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1"}}
KINDS: dict[str, dict[str, Any]] = {
    "append": {"pk": [], "partition": [], "tableOptions": {}},
    "append_vectors": {"pk": [], "partition": [], "tableOptions": VECTORS},
    "keyed": KEYED,
    "keyed_vectors": {
        **KEYED,
        "tableOptions": {"bucket": "1", **VECTORS},
    },
    "input": {**KEYED, "tableOptions": {"bucket": "1", "changelog-producer": "input"}},
    "lookup": {**KEYED, "tableOptions": {"bucket": "1", "changelog-producer": "lookup"}},
    "full_compaction": {
        **KEYED,
        "tableOptions": {
            "bucket": "1",
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": "1",
        },
    },
}
WAYS: dict[str, dict[str, Any]] = {"merge_branch": {"if_main_moved": "replace"}, "replace_main": {}}


def write(table: Table, rows: list[Row]) -> None:
    table.write(our_hand.batch_of(rows, table.schema))


def changes(java: JavaPaimon, path: str, branch: str | None) -> dict[str, Any]:
    """Snapshot id -> the changes that Java streams of it, where there are any."""
    found = java.call("changes", path=path, **({} if branch is None else {"branch": branch}))["changes"]
    return {i: sorted(rows, key=str) for i, rows in found.items() if rows}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_others_read_and_extend_what_was_published(
    kind: str, way: str, java: JavaPaimon, py: PyPaimon, tmp_path: Path
) -> None:
    path = str(tmp_path / "wh" / "db.db" / "t")
    fields = [["k", "INT NOT NULL"], ["v", "STRING"], ["n", "INT"]]
    java.call("createTable", path=path, fields=fields, comment=None, **KINDS[kind])
    table = paimon_spark.load_table(path)
    # So many that compactions of what comes later leave their file, and vectors for it.
    count = 1000 if kind == "keyed_vectors" else 8
    write(table, [[k, f"v{k}", k] for k in range(count)])
    table.create_tag("base")
    table.create_branch("fix", tag="base")
    write(table, [[-1, "wrong", 0]])

    # On the branch: by us and by Java, new and changed columns, rows that go and rows that change.
    fix = table.branch("fix")
    if KINDS[kind]["pk"]:
        write(fix, [[1, "ours", 10], delete(2, None, None)])
    elif kind == "append_vectors":
        java.call("deleteRows", path=path, branch="fix", column="k", values=[2, 5])
    fix = table.branch("fix")
    fix.alter(add={"extra": "STRING"}, rename={"v": "value"}, retype={"n": "BIGINT"})
    fix = table.branch("fix")
    write(fix, [[3, "evolved", 2**40, "e"], [2000, "new", None, None]])
    java.call("write", path=path, branch="fix", rows=[[4, "java", -(2**40), "j"]])
    if kind in ("keyed", "full_compaction"):
        java.call("compact", path=path, branch="fix", full=True)
    fix.create_tag("checked")

    theirs = java.call("read", path=path, branch="fix")
    streamed, first = changes(java, path, "fix"), fix.snapshots()[0].id
    kinds = {row["_KIND"] for rows in streamed.values() for row in rows}
    assert kinds >= {"lookup": {"-U", "-D"}, "full_compaction": {"-U", "-D"}, "input": {"-D"}}.get(kind, set())
    index_files = java.call("files", path=path, branch="fix")["indexFiles"]
    assert bool(index_files) == kind.endswith("vectors"), index_files
    assert streamed and {"extra", "value"} <= {name for row in theirs["rows"] for name in row}
    assert disagreement(path, theirs, options={"branch": "fix"}) is None

    result = getattr(table, way)("fix", **WAYS[way])
    assert result.backup_branch is not None
    name = {"merge_branch": {}, "replace_main": {"branch": "fix"}}[way]
    agree(java, py, path, name, theirs)
    # Main's snapshots before the branch's first one are there again.
    seen = changes(java, path, name.get("branch"))
    assert {i: rows for i, rows in seen.items() if int(i) >= first} == streamed
    former = java.call("read", path=path, branch=result.backup_branch)
    assert disagreement(path, former, options={"branch": result.backup_branch}) is None
    assert -1 in {row["k"] for row in former["rows"]}

    # The others go on, then we, on what is main for us.
    java.call("write", path=path, rows=[[3000, "java", 1, None]], **name)
    py.call("write", path=path, rows=[[3001, "py", 2, "p"]], **name)
    write(paimon_spark.load_table(path), [[3002, "ours", 3, "o"]])
    java.call("compact", path=path, full=True, **name)
    agree(java, py, path, name, java.call("read", path=path, **name))
    assert {3000, 3001, 3002} <= {row["k"] for row in java.call("read", path=path, **name)["rows"]}
    assert missing_files(paimon_spark.load_table(path).handle) == []


def agree(java: JavaPaimon, py: PyPaimon, path: str, name: dict[str, str], expected: dict[str, Any]) -> None:
    """The head of main is those rows, for all three."""
    for reply in (java.call("read", path=path, **name), py.call("read", path=path, **name)):
        assert difference(expected["rows"], reply["rows"]) is None
        assert disagreement(path, reply, options={}) is None
