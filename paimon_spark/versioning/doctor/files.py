"""Refs whose files are gone."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.maintenance.roots import RootKind
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_manifest_list
from paimon_spark.versioning.doctor.findings import Case, Finding, Looked, Severity, some


def missing_files(table: Looked) -> list[Case]:
    """Refs whose manifest lists, index manifests or statistics are gone, and heads and tags whose manifests are."""
    main = table.main
    manifests, _, statistics = (
        frozenset(i.name for i in main.store.list(directory)) for directory in main.layout.shared_dirs
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for branch in table.branches:
        snapshots = table.of(branch, RootKind.SNAPSHOT)
        for root in [*snapshots, *table.of(branch, RootKind.TAG)]:
            snapshot = root.snapshot
            lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
            names = [*lists, *([snapshot.index_manifest] if snapshot.index_manifest else [])]
            if root.kind is RootKind.SNAPSHOT and snapshot.changelog_manifest_list:
                names.append(snapshot.changelog_manifest_list)
            lost = [n for n in names if n not in manifests]
            if snapshot.statistics and snapshot.statistics not in statistics:
                lost.append(snapshot.statistics)
            if not lost and (root.kind is RootKind.TAG or root is snapshots[-1]):
                lost = _lost_manifests(main, lists, manifests)
            if lost:
                found.setdefault(branch.branch, []).append((root.describe(), lost[0]))
    return [
        Case(
            Finding(
                "missing-files",
                Severity.ERROR,
                name,
                f"{some([ref for ref, _ in refs])} cannot be read: manifest files are gone, {refs[0][1]} first; "
                "another engine deleted what it saw no use for",
                "restore the files from a backup, or delete these refs",
            )
        )
        for name, refs in found.items()
    ]


def _lost_manifests(main: TableHandle, lists: Sequence[str], there: frozenset[str]) -> list[str]:
    try:
        return [m.file_name for name in lists for m in read_manifest_list(main, name) if m.file_name not in there]
    except FileMissingError:
        return list(lists)
    except CorruptFileError as e:
        return [e.message]
