"""Checks of two tables after a query between them was killed again and again."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from paimon_spark.api.table import Table
from paimon_spark.maintenance.change import recover
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from tests.chaos.streams import FOREIGN, KINDS, Row, Stream, changes_of, said
from tests.harness.table_files import files_on_disk, missing_files, reachable_files


def check(stream: Stream) -> dict[str, int]:
    """Fail unless the sink holds what the source does, and both tables are whole."""
    CACHE.clear()
    source, sink = stream.source(), stream.sink()
    for table in {t.location: t for t in (source, sink)}.values():
        recover(table.handle)
    head = Counter(_rows(source)) if not stream.same_table else Counter(r for r in _rows(source) if r[1] < FOREIGN)
    stored = sink.scan().to_arrow().to_pylist()
    theirs = {r["v"] for r in stored if r["k"] >= FOREIGN}
    assert theirs == {"0", *(f"{n}" for n in said(stream, "foreign "))}, "rows of others are gone from the sink"
    ours = [r for r in stored if r["k"] < FOREIGN]
    if not stream.keeps:
        _same(Counter((r["p"], r["k"], r["v"]) for r in ours), head)
    else:
        found = Counter((r["kind"], r["p"], r["k"], r["v"]) for r in ours)
        if stream.producer == "lookup":
            balance = Counter[Row]()
            for (kind, *row), n in found.items():
                balance[tuple(row)] += n if kind.startswith("+") else -n
            assert min(balance.values(), default=0) >= 0, "a change came twice, or one was left out"
            _same(+balance, head)
        else:
            done = [int(label) for label in said(stream, "done ")]
            _same(found, Counter((KINDS[kind], *row) for label in done for row, kind in changes_of(stream, label)))
    _own_commits(stream, sink)
    left, versions = 0, 0
    for table in {t.location: t for t in (source, sink)}.values():
        versions += _every_version(table)
        left += _files(table)
    return {"rows": sum(head.values()), "versions": versions, "orphans": left, "labels": len(said(stream, "done "))}


def kill_places(stream: Stream) -> Counter[str]:
    """The last step of each run that was killed."""
    lines = (path.read_text().splitlines() for path in stream.logs.glob("query-*.log"))
    return Counter(steps[-1] if steps else "opening" for steps in lines)


def _same(found: Counter[Any], expected: Counter[Any]) -> None:
    assert found == expected, f"too many {list(found - expected)[:5]}, too few {list(expected - found)[:5]}"


def _rows(table: Table) -> list[Row]:
    return [(r["p"], r["k"], r["v"]) for r in table.scan().to_arrow().to_pylist()]


def _own_commits(stream: Stream, sink: Table) -> None:
    """Batches of the query come in order, each once."""
    user = stream.checkpoint.query_id()
    own = [s for s in sink.snapshots() if s.commit_user == user and s.commit_kind.value != "COMPACT"]
    batches = [s.commit_identifier for s in own]
    assert batches == sorted(set(batches)), f"batches {batches}"
    assert not batches or batches[-1] <= (stream.checkpoint.ended() or 0)


def _every_version(table: Table) -> int:
    versions = 0
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        for version in (
            *(f"snapshot.{s.id}" for s in branch.snapshots()),
            *(f"tag-name.{t.name}" for t in branch.tags(include_internal=True)),
        ):
            branch.at(version).scan().to_arrow()
            versions += 1
    return versions


def _files(table: Table) -> int:
    """Nothing is missing, and what nothing names is what a clean-up finds. How much that was."""
    assert missing_files(table.handle) == []
    left = len(orphans(table.handle))
    table.remove_orphan_files(older_than=datetime.now(UTC))
    assert orphans(table.handle) == []
    unnamed = {f.path for f in files_on_disk(table.handle)} - reachable_files(table.handle)
    unnamed = {p for p in unnamed if "/intent/" not in p and not p.endswith(("/FORK", "/REBASED", "/UNDO"))}
    assert not unnamed, sorted(unnamed)[:10]
    return left
