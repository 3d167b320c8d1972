"""The steps that write one history over another, looked at after each of them as a reader would. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.journal.change import DeleteFile, Put, Step
from paimon_spark.versioning.branch_state import BranchState, Ref, create_state, replace_state
from paimon_spark.versioning.new_main import Other, PublishSource, backup_state, leaves_at, plan_new_main
from tests.harness.tables import a_snapshot

Files = dict[str, str]


def ref(snapshot_id: int, branch: str, schema_id: int = 0) -> Ref:
    made = a_snapshot(
        snapshot_id, schema_id=schema_id, base_manifest_list=f"{branch}-{snapshot_id}-0", commit_user=branch,
        delta_manifest_list=f"{branch}-{snapshot_id}-1",
    )  # fmt: skip
    return Ref(snapshot_file.encode(made).decode(), made)


def state(directory: str, shared: int, newest: int, *, first: int = 1, tags: Sequence[int] = ()) -> BranchState:
    """A history: shared with main up to an id and own from there; each own snapshot has a schema of its own."""
    refs = {i: ref(i, "main", 0) if i <= shared else ref(i, directory, i - shared) for i in range(1, newest + 1)}
    schemas = {0: "main 0"} | {i - shared: f"{directory} {i - shared}" for i in range(shared + 1, newest + 1)}
    named = {f"{directory}-{i}": refs[i] for i in tags if i in refs}
    return BranchState(directory, {i: r for i, r in refs.items() if i >= first}, named, schemas=schemas)


def files_of(steps: Sequence[Step], files: Files) -> Files:
    for step in steps:
        done(step, files)
    return files


def done(step: Step, files: Files) -> None:
    match step:
        case Put(path, text):
            files[path] = text
        case DeleteFile(path, sha256):
            if sha256 is None or (path in files and Ref(files[path], a_snapshot(1)).sha256 == sha256):
                files.pop(path, None)
        case _:
            raise AssertionError(step)


def snapshots(files: Files) -> dict[int, Snapshot]:
    return {
        int(path.rpartition("-")[2]): snapshot_file.decode(text.encode(), path)
        for path, text in files.items()
        if path.startswith("snapshot/snapshot-")
    }


def head(files: Files, hint: int | None) -> Snapshot:
    """As every Paimon finds it: by the hint when nothing follows, else by listing."""
    alive = snapshots(files)
    if hint is not None and hint + 1 not in alive and hint in alive:
        return alive[hint]
    return alive[max(alive)]


LINES = st.tuples(
    st.integers(0, 4),  # shared
    st.integers(0, 4),  # main's own
    st.integers(1, 4),  # the branch's own
    st.integers(1, 4),  # main's oldest, from the end
    st.integers(1, 6),  # the branch's oldest, from the end
    st.sets(st.integers(1, 8)),
)


@given(LINES, st.booleans())
def test_after_each_step_a_reader_finds_the_old_head_or_the_new_one(shape: tuple, stale: bool) -> None:  # type: ignore[type-arg]
    shared, own, theirs, oldest, base, tags = shape
    if shared + own == 0:
        own = 1
    main = state("main", shared, shared + own, first=max(1, shared + own + 1 - oldest), tags=sorted(tags))
    fix = state("fix", shared, shared + theirs, first=max(1, shared + theirs + 1 - base), tags=sorted(tags))
    source = PublishSource(
        "fix", fix, fix.head, [("fix", fix.head), ("main", shared)] if shared else [("fix", fix.head)]
    )
    result = plan_new_main(main, source)
    assert result.fork_id == shared
    new = result.state
    ids = sorted(new.snapshots)
    assert ids == list(range(ids[0], ids[-1] + 1)) and ids[-1] == fix.head, "no hole"
    assert new.snapshots[fix.head] == fix.snapshots[fix.head]
    kept = {n: r for n, r in main.tags.items() if r.id <= shared}
    assert kept.items() <= new.tags.items()
    assert set(result.discarded_tags) == main.tags.keys() - kept.keys()

    files = files_of(create_state(main), {})
    files["snapshot/LATEST"] = str(main.head - 1 if stale else main.head)
    old_head, new_head = main.snapshots[main.head].snapshot, fix.snapshots[fix.head].snapshot
    seen_new = False
    for step in replace_state(main, new):
        done(step, files)
        for hint in (int(files["snapshot/LATEST"]), None):
            found = head(files, hint)
            assert found in (old_head, new_head)
            schema = files.get(f"schema/schema-{found.schema_id}")
            wanted = new.schemas if found == new_head else {**main.schemas, **new.schemas}
            assert schema in (wanted[found.schema_id], main.schemas.get(found.schema_id))
            assert found != new_head or schema == new.schemas[found.schema_id]
            if hint is not None:
                assert not seen_new or found == new_head, "never back again"
                seen_new = found == new_head
    assert files == files_of(create_state(new), {})
    # Repeated from the first step after a crash, nothing changes.
    again = files_of(replace_state(main, new), dict(files))
    assert again == files


@given(LINES)
def test_what_is_lost_is_in_the_backup(shape: tuple) -> None:  # type: ignore[type-arg]
    shared, own, theirs, oldest, base, tags = shape
    main = state("main", shared, shared + own, first=max(1, shared + own + 1 - oldest), tags=sorted(tags))
    fix = state("fix", shared, shared + theirs, first=max(1, shared + theirs + 1 - base), tags=sorted(tags))
    result = plan_new_main(main, PublishSource("fix", fix, fix.head, [("fix", fix.head), ("main", shared)]))
    backup = backup_state("backup", main, result)
    for snapshot_id, found in main.snapshots.items():
        assert found in (result.state.snapshots.get(snapshot_id), backup.snapshots.get(snapshot_id))
    for name, found in main.tags.items():
        assert found in (result.state.tags.get(name), backup.tags.get(name))
    ids = sorted(backup.snapshots)
    assert not ids or ids == list(range(ids[0], ids[-1] + 1))
    assert result.discards == (own > 0 or bool(result.discarded_snapshots))


def test_a_commit_made_after_a_crash_survives_the_repeated_steps() -> None:
    main, fix = state("main", 1, 4), state("fix", 1, 2)
    new = plan_new_main(main, PublishSource("fix", fix, 2, [("fix", 2), ("main", 1)])).state
    files = files_of(replace_state(main, new), files_of(create_state(main), {}))
    files["snapshot/snapshot-3"] = ref(3, "later").text
    files_of(replace_state(main, new), files)
    assert snapshots(files)[3].commit_user == "later"


def test_where_other_branches_leave_the_new_main() -> None:
    source = PublishSource("x", state("x", 3, 9), 9, [("x", 9), ("p", 5), ("main", 3)])
    ever = 2**62
    for trail, want in [
        ([("a", ever), ("main", 2)], 2),
        ([("a", ever), ("main", 7)], 3),
        ([("a", ever), ("x", 7), ("p", 5), ("main", 3)], 7),
        ([("a", ever), ("x", 12), ("p", 5), ("main", 3)], 9),
        ([("a", ever), ("p", 8), ("main", 3)], 5),
        ([("a", ever), ("p", 4), ("main", 3)], 4),
        ([("a", ever), ("b", 9), ("main", 1)], 1),
        ([("a", ever)], None),
    ]:
        assert leaves_at(Other("a", None, trail), source, 3) == want
    assert leaves_at(Other("a", None, [("a", ever), ("main", 2)]), source, 0) is None
