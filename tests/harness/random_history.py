"""Random histories of tables with branches, tags and long-lived changelogs: metadata alone, and what each root needs.

Histories are wilder than writers make them: files come back, branches are copied over main, ids have holes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.index_manifest import HASH, IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.manifests import write_index_manifest
from tests.harness.commits import PARTITIONED
from tests.harness.table_builder import File, TableBuilder

Key = tuple[int, int, str]


@dataclass(frozen=True)
class Version:
    """A snapshot and what it needs: in its state, for its changelog, and what is read of its delta."""

    snapshot: Snapshot
    live: dict[Key, File]
    manifests: tuple[tuple[Any, tuple[tuple[int, File], ...]], ...]
    index: tuple[IndexManifestEntry, ...]
    changelog: frozenset[str]
    delta: frozenset[str]
    lists: frozenset[str]
    state_manifests: frozenset[str]
    changelog_manifests: frozenset[str]


@dataclass
class History:
    """A table that is filled at random."""

    random: Random
    builder: TableBuilder = field(default_factory=lambda: TableBuilder(PARTITIONED))
    lines: dict[str, list[Version]] = field(default_factory=lambda: {"main": []})
    tags: dict[tuple[str, str], Version] = field(default_factory=dict)
    changelogs: dict[tuple[str, int], Version] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.handle: TableHandle = self.builder.open()

    @property
    def root(self) -> str:
        return self.handle.layout.root

    def run(self, steps: int) -> History:
        acts = [self.commit, self.commit, self.commit, self.compact, self.tag, self.branch, self.splice, self.expire]
        self.commit()
        for _ in range(steps):
            self.random.choice(acts)()
        return self

    def path(self, file: File) -> str:
        return f"{self.root}/p={file.partition['p']}/bucket-{file.bucket}/{file.name}"

    def needed(self, root: Root) -> set[str]:
        """Paths of all shared files that a root needs."""
        version = self.version(root)
        s = version.snapshot
        manifests, paths = set(version.lists), set[str]()
        if root.kind is RootKind.CHANGELOG:
            if s.changelog_manifest_list is not None:
                return {*self._manifests([s.changelog_manifest_list, *version.changelog_manifests]), *version.changelog}
            manifests |= version.state_manifests
            return {*self._manifests(manifests), *version.delta}
        paths |= {self.path(f) for f in version.live.values()} | {
            f"{self.root}/index/{e.file_name}" for e in version.index
        }
        manifests |= version.state_manifests
        manifests |= {s.index_manifest} if s.index_manifest else set()
        paths |= {f"{self.root}/statistics/{s.statistics}"} if s.statistics else set()
        if root.kind is RootKind.SNAPSHOT and s.changelog_manifest_list is not None:
            manifests |= {s.changelog_manifest_list, *version.changelog_manifests}
            paths |= version.changelog
        return {*self._manifests(manifests), *paths}

    def gives_up(self, root: Root) -> set[str]:
        """Paths that may go when a root goes; of a long-lived changelog without list, those of its whole state."""
        if root.kind is RootKind.CHANGELOG and root.snapshot.changelog_manifest_list is None:
            return self.needed(root) | {self.path(f) for f in self.version(root).live.values()}
        return self.needed(root)

    def lists(self, root: Root) -> set[str]:
        """Paths of the manifest lists that a root names."""
        logs = root.snapshot.changelog_manifest_list
        names = set(self.version(root).lists) if root.kind is not RootKind.CHANGELOG or logs is None else set()
        return self._manifests(names | ({logs} if logs is not None and root.kind is not RootKind.TAG else set()))

    def version(self, root: Root) -> Version:
        if root.kind is RootKind.TAG:
            return self.tags[root.branch_directory, root.name]
        if root.kind is RootKind.CHANGELOG:
            return self.changelogs[root.branch_directory, int(root.name)]
        return next(v for v in self.lines[root.branch_directory] if v.snapshot.id == int(root.name))

    def roots(self) -> list[Root]:
        return all_roots(self.handle)

    def commit(self) -> None:
        """Add files, delete some, upgrade some, and bring some back that another root has."""
        branch, head = self._head()
        live = dict(head.live) if head else {}
        entries: list[tuple[int, File]] = []
        for key in self._some(live, 0.2):
            entries.append((1, live.pop(key)))
        for key in self._some(live, 0.2):
            entries.append((1, live[key]))
            live[key] = replace(live[key], level=live[key].level + 1)
            entries.append((0, live[key]))
        known = {k: f for line in self.lines.values() for v in line for k, f in v.live.items()}
        back = [k for k in self._some(known, 0.05) if k not in live]
        for key in back:
            live[key] = known[key]
            entries.append((0, known[key]))
        for _ in range(self.random.randint(0, 3)):
            self.count += 1
            name = f"f{self.random.choice([self.count, max(1, self.count - 5)])}"
            file = File(name, {"p": self.random.randint(0, 2)}, self.random.randint(0, 1))
            key = (file.partition["p"], file.bucket, name)
            if key not in live and key not in known:
                live[key] = file
                entries.append((0, file))
        self._add(branch, head, live, entries, merge=self.random.random() < 0.3)

    def compact(self) -> None:
        """Replace all files of a partition by one."""
        branch, head = self._head()
        if head is None or not head.live:
            return
        p = self.random.choice(sorted(head.live))[0]
        self.count += 1
        new = File(f"c{self.count}", {"p": p}, 0)
        live = {k: f for k, f in head.live.items() if k[0] != p}
        entries = [(1, f) for k, f in head.live.items() if k[0] == p]
        self._add(branch, head, live | {(p, 0, new.name): new}, [*entries, (0, new)], merge=True)

    def tag(self) -> None:
        branch, _ = self._head()
        versions = self.lines[branch]
        if not versions:
            return
        self.count += 1
        version = self.random.choice(versions)
        self.tags[branch, f"t{self.count}"] = version
        self.builder.table.tag(f"t{self.count}", version.snapshot, branch)

    def branch(self) -> None:
        branch, _ = self._head()
        versions = self.lines[branch]
        if not versions or len(self.lines) > 4:
            return
        self.count += 1
        name = f"b{self.count}"
        self.lines[name] = [self.random.choice(versions)]
        self.builder.table.snapshots([self.lines[name][0].snapshot], name)

    def splice(self) -> None:
        """What foreign fast-forwards do: another branch's later snapshots over this one's."""
        branch, _ = self._head()
        other = self.random.choice(sorted(self.lines))
        theirs = self.lines[other]
        if not theirs or other == branch:
            return
        first = theirs[0].snapshot.id
        for version in self.lines[branch]:
            if version.snapshot.id >= first:
                self.builder.table.delete(self.builder.table.layout(branch).snapshot_path(version.snapshot.id))
        self.lines[branch] = [v for v in self.lines[branch] if v.snapshot.id < first] + list(theirs)
        self.builder.table.snapshots([v.snapshot for v in theirs], branch)

    def expire(self) -> None:
        """The oldest snapshot of a branch goes, and stays as long-lived changelog."""
        branch, _ = self._head()
        if len(self.lines[branch]) < 2 or self.random.random() < 0.5:
            return
        version = self.lines[branch].pop(0)
        layout = self.builder.table.layout(branch)
        self.builder.table.put(layout.changelog_path(version.snapshot.id), snapshot_file.encode(version.snapshot))
        self.builder.table.delete(layout.snapshot_path(version.snapshot.id))
        self.changelogs[branch, version.snapshot.id] = version

    def _head(self) -> tuple[str, Version | None]:
        branch = self.random.choice(sorted(self.lines))
        line = self.lines[branch]
        return branch, line[-1] if line else None

    def _some(self, items: Iterable[Key], share: float) -> list[Key]:
        return [k for k in sorted(items) if self.random.random() < share]

    def _add(
        self, branch: str, head: Version | None, live: dict[Key, File], entries: list[tuple[int, File]], *, merge: bool
    ) -> None:
        b, self.count = self.builder, self.count + 1
        base = list(head.manifests) if head else []
        if merge and len(base) > 1:
            start = self.random.randrange(len(base) - 1)
            base[start:] = self._merged(base[start:])
        tag = str(self.count)
        delta = self._manifest(f"manifest-{tag}-d", entries)
        base_list = b._list(f"manifest-list-{tag}-0", [m for m, _ in base])
        delta_list = b._list(f"manifest-list-{tag}-1", [m for m, _ in delta])
        changelog, log_list, log_names = frozenset[str](), None, frozenset[str]()
        if self.random.random() < 0.4:
            file = File(f"changelog-{tag}", {"p": self.random.randint(0, 2)}, 0)
            log = self._manifest(f"manifest-{tag}-c", [(0, file)])
            log_list = b._list(f"manifest-list-{tag}-2", [m for m, _ in log])
            changelog, log_names = frozenset([self.path(file)]), frozenset(m["_FILE_NAME"] for m, _ in log)
        index, index_manifest = self._index(head)
        kind = self.random.choice((CommitKind.APPEND, CommitKind.OVERWRITE, CommitKind.COMPACT))
        read = {CommitKind.APPEND: (0,), CommitKind.OVERWRITE: (0, 1), CommitKind.COMPACT: ()}[kind]
        snapshot = Snapshot(
            (head.snapshot.id if head else 0) + 1 + (self.random.random() < 0.1), 0, base_list, delta_list, "tests",
            1, kind, self.count, changelog_manifest_list=log_list, index_manifest=index_manifest,
            statistics=f"stat-{tag}" if self.random.random() < 0.3 else head.snapshot.statistics if head else None,
            uuid=tag,
        )  # fmt: skip
        manifests = (*base, *delta)
        version = Version(
            snapshot,
            live,
            manifests,
            index,
            changelog,
            frozenset(self.path(f) for change, f in entries if change in read),
            frozenset((base_list, delta_list)),
            frozenset(m["_FILE_NAME"] for m, _ in manifests),
            log_names,
        )
        self.lines[branch].append(version)
        b.table.snapshots([snapshot], branch)

    def _index(self, head: Version | None) -> tuple[tuple[IndexManifestEntry, ...], str | None]:
        index = head.index if head else ()
        if self.random.random() < 0.6:
            return index, head.snapshot.index_manifest if head else None
        kept = [e for e in index if self.random.random() < 0.7]
        partition = self.builder.partition({"p": 0})
        new = IndexManifestEntry(0, partition, 0, HASH, f"index-{self.count}", 10, 1)
        index = (*kept, new)
        return index, write_index_manifest(self.handle, index)

    def _manifest(self, name: str, entries: list[tuple[int, File]]) -> list[Any]:
        return [(self.builder._manifest(name, entries, False), tuple(entries))] if entries else []

    def _merged(self, manifests: list[Any]) -> list[Any]:
        """Entries of several manifests in one; ADD and DELETE of a file cancel, as far as both are among them."""
        out: list[tuple[int, File]] = []
        for kind, file in (e for _, entries in manifests for e in entries):
            if kind == 1 and (0, file) in out:
                out.remove((0, file))
            else:
                out.append((kind, file))
        return self._manifest(f"manifest-{self.count}-m", out)

    def _manifests(self, names: Iterable[str]) -> set[str]:
        return {f"{self.root}/manifest/{name}" for name in names}
