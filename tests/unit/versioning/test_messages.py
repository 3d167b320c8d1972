"""Messages of refused operations on versions, by the methods of `Table`.

Each case says what was asked, on which table and branch, and what to do; and no file changes by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    SavepointNotFoundError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TagAlreadyExistsError,
    TagNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    VersionSyntaxError,
)
from paimon_spark.jobs.opened_table import OpenedTable
from tests.harness.real_tables import a_catalog, a_table, put

SCHEMA = pa.schema([("id", pa.int64()), ("dt", pa.string())])
Ask = Callable[[Any], Any]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Table `db.t`: snapshots 2 to 5, of which 5 is a savepoint; branches; and `db.app`, which only grows."""
    catalog = a_catalog(tmp_path_factory.mktemp("wh"))
    catalog.create_table("db.t", SCHEMA, primary_keys=["id", "dt"], partition_keys=["dt"], options={"bucket": "1"})
    t = catalog.table("db.t")
    for i in range(4):
        put(t, (i, "2024-01-01"))
    t.create_tag("v1", snapshot_id=2)
    t.create_tag("v2", snapshot_id=4)
    t.create_savepoint()
    t.expire_snapshots(4, retain_min=4)
    t.create_branch("fix", tag="v1")
    put(t.branch("fix"), (50, "2024-01-01"))
    t.branch("fix").create_tag("f1")
    t.create_branch("empty", empty=True)
    t.create_branch("same", snapshot_id=5)
    catalog.create_table("db.app", SCHEMA)
    app = catalog.table("db.app")
    app.create_branch("b", empty=True)
    return catalog


def listing(root: str) -> list[tuple[str, int]]:
    return sorted(
        (str(p), p.stat().st_mtime_ns if p.is_file() else 0) for p in Path(root.removeprefix("file://")).rglob("*")
    )


@pytest.fixture
def t(catalog: Catalog) -> Iterator[Table]:
    table = catalog.table("db.t")
    before = listing(table.location)
    yield table
    assert listing(table.location) == before, "bad input left something"


TAG_NAMES = [
    (None, "a name is text, not NoneType"),
    (7, "a name is text, not int"),
    (b"x", "a name is text, not bytes"),
    (["a"], "a name is text, not list"),
    ("", "not blank"),
    ("  ", "not blank"),
    (" a", "neither begins nor ends with a blank"),
    ("123", "a number means a snapshot id; put a letter before it"),
    ("a/b", "holds no slash"),
    ("a\\b", "holds no slash"),
    ("a\0b", "printable characters only"),
    ("a\nb", "printable characters only"),
    ("a\u200b", "printable characters only"),
    ("\ud800", "printable characters only"),
    ("x" * 201, "at most 200 bytes"),
    ("ü" * 101, "at most 200 bytes"),
    ("savepoint-3", "use create_savepoint"),
    ("snapshot.3", "it is how snapshot '3' is written as a version"),
    ("savepoint.3", "it is how savepoint '3' is written as a version"),
    ("tag-id.3", "it is how tag-id '3' is written as a version"),
    ("tag-name.v", "it is how tag 'v' is written as a version"),
    ("watermark-3", "it is how watermark '3' is written as a version"),
    ("branch-guard-fix", "guard the bases of branches"),
    ("fix.x", "it is how a version 'x' on branch 'fix' is written"),
    ("main.x", "it is how a version 'x' on branch 'main' is written"),
    ("success-file", "Paimon keeps a directory of that name"),
]


@pytest.mark.parametrize(("name", "why"), TAG_NAMES, ids=[ascii(n)[:20] for n, _ in TAG_NAMES])
@pytest.mark.parametrize("verb", ["create_tag", "rename_tag"])
def test_no_tag_is_called_so(t: Table, verb: str, name: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be the name of a tag of table db\.t: ") as caught:
        t.create_tag(name) if verb == "create_tag" else t.rename_tag("v1", name)
    assert why in str(caught.value)


BRANCH_NAMES = [
    (None, "a name is text, not NoneType"),
    (7, "a name is text, not int"),
    ("", "not blank"),
    (" \t", "not blank"),
    ("123", "a number means a snapshot id"),
    ("main", "main is always there"),
    ("a.b", "split at the first dot"),
    (".", "split at the first dot"),
    ("a/b", "holds no slash"),
    ("a\\b", "holds no slash"),
    ("..", "split at the first dot"),
    ("a$b", "split at its dollar signs"),
    ("snapshot", "versions are written with the word 'snapshot'"),
    ("savepoint", "versions are written with the word 'savepoint'"),
    ("tag-name", "versions are written with the word 'tag-name'"),
    ("tag-id", "versions are written with the word 'tag-id'"),
    ("watermark", "versions are written with the word 'watermark'"),
    ("watermark-1", "versions are written with the word 'watermark-1'"),
    ("Snapshot", "versions are written with the word 'Snapshot'"),
    ("x" * 201, "at most 200 bytes"),
]


@pytest.mark.parametrize(("name", "why"), BRANCH_NAMES, ids=[ascii(n)[:20] for n, _ in BRANCH_NAMES])
@pytest.mark.parametrize("verb", ["create_branch", "rename_branch"])
def test_no_branch_is_called_so(t: Table, verb: str, name: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be the name of a branch of table db\.t: ") as caught:
        t.create_branch(name, empty=True) if verb == "create_branch" else t.rename_branch("fix", name)
    assert why in str(caught.value)


NO_NAMES: list[Any] = [None, 7, 1.5, True, b"x", "", " ", "a/b", "\ud800", "nope"]


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_a_tag_that_cannot_be_is_not_there(t: Table, name: Any) -> None:
    asks: tuple[Ask, ...] = (
        lambda t: t.replace_tag(name),
        lambda t: t.rename_tag(name, "q"),
        lambda t: t.previous_tag(name),
        lambda t: t.next_tag(name),
        lambda t: t.delete_tag(["v1", name if isinstance(name, str) else "nope"]),
    )
    for ask in asks:
        with pytest.raises(TagNotFoundError, match=r"table db\.t has no tag .*; its tags are (?!branch-guard)"):
            ask(t)


@pytest.mark.parametrize("names", [None, 7, b"v1", ["v1", 7], {"v1": 1, 2: 3}.keys()], ids=ascii)
def test_names_of_tags_to_delete_are_text(t: Table, names: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"is not a list of tag names of table db\.t; give a name, or a list of names"
    ):
        t.delete_tag(names)


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_a_branch_that_cannot_be_is_not_there(t: Table, name: Any) -> None:
    for ask in (lambda: t.rename_branch(name, "q"), lambda: t.delete_branch(name), lambda: t.append_branch(name)):
        with pytest.raises(
            BranchNotFoundError, match=r"table db\.t has no branch .*; its branches are main, empty, fix"
        ):
            ask()


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_what_is_no_branch_is_not_published_nor_opened(t: Table, name: Any) -> None:
    for ask in (t.merge_branch, t.fast_forward, t.replace_main, t.branch):
        with pytest.raises((InvalidInputError, BranchNotFoundError)) as caught:
            ask(name)
        message = str(caught.value)
        assert repr(name) in message
        assert any(
            text in message for text in ("no branch", "is refused: the name of a branch is text", "a name is text")
        )


CASES: list[tuple[str, Ask, type[PaimonError], str]] = [
    # what to tag
    ("0", lambda t: t.create_tag("q", snapshot_id=0), SnapshotNotFoundError, "table db.t has no snapshot 0: its snap"),
    (
        "-1",
        lambda t: t.create_tag("q", snapshot_id=-1),
        SnapshotNotFoundError,
        "no snapshot -1: its snapshots alive are",
    ),
    (
        "99",
        lambda t: t.create_tag("q", snapshot_id=99),
        SnapshotNotFoundError,
        "has no snapshot 99: its snapshots alive",
    ),
    ("big", lambda t: t.create_tag("q", snapshot_id=10**30), SnapshotNotFoundError, "its snapshots alive are 2 to 5"),
    (
        "expired",
        lambda t: t.create_tag("q", snapshot_id=1),
        SnapshotExpiredError,
        "snapshot 1 of table db.t has expired",
    ),
    ("text id", lambda t: t.create_tag("q", snapshot_id="2"), InvalidInputError, "'2' of table db.t is not a number"),
    (
        "bool id",
        lambda t: t.replace_tag("v1", snapshot_id=True),
        InvalidInputError,
        "True of table db.t is not a number",
    ),
    ("there", lambda t: t.create_tag("v1"), TagAlreadyExistsError, "table db.t already has a tag 'v1'; replace_tag"),
    ("to one there", lambda t: t.rename_tag("v1", "v2"), TagAlreadyExistsError, "already has a tag 'v2'"),
    ("to itself", lambda t: t.rename_tag("v1", "v1"), TagAlreadyExistsError, "already has a tag 'v1'"),
    # how long it lives
    ("number", lambda t: t.create_tag("q", time_retained=5), InvalidInputError, "a number has no unit"),
    (
        "zero",
        lambda t: t.create_tag("q", time_retained="0 d"),
        InvalidInputError,
        "it must be positive; give text",
    ),
    ("minus", lambda t: t.create_tag("q", time_retained=timedelta(-1)), InvalidInputError, "it must be positive"),
    ("word", lambda t: t.replace_tag("v1", time_retained="long"), InvalidInputError, "'long' for a tag of table db.t"),
    (
        "beyond Java's calendar",
        lambda t: t.create_tag("q", time_retained="9999999999 d"),
        InvalidInputError,
        "too long for other engines; leave it out to keep the tag forever",
    ),
    (
        "calendar",
        lambda t: t.replace_tag("v1", time_retained=timedelta.max),
        InvalidInputError,
        "leave it out to keep the tag forever",
    ),
    # moments
    ("word", lambda t: t.expire_tags("yesterday"), InvalidInputError, "older_than = 'yesterday' is no timestamp"),
    ("date", lambda t: t.expire_tags(date(2024, 1, 1)), InvalidInputError, "is no moment; give a datetime"),
    ("micros", lambda t: t.expire_tags(10**18), InvalidInputError, "is no moment; give a datetime, epoch milliseconds"),
    (
        "far",
        lambda t: t.expire_snapshots(older_than=10**18),
        InvalidInputError,
        "older_than = 1000000000000000000 is no",
    ),
    ("age", lambda t: t.expire_tags("7 weeks"), InvalidInputError, "is no timestamp .* or an age such as 7 d"),
    ("future", lambda t: t.remove_orphan_files("2999-01-01"), InvalidInputError, "that time is not in the past"),
    # kept tags
    (
        "guard",
        lambda t: t.delete_tag("branch-guard-fix"),
        InvalidInputError,
        r"guards the base of branch 'fix' .* deletes it",
    ),
    ("guard", lambda t: t.rename_tag("branch-guard-fix", "q"), InvalidInputError, "'fix' and cannot be renamed"),
    ("guard", lambda t: t.replace_tag("branch-guard-fix"), InvalidInputError, "'fix' and cannot be replaced"),
    ("savepoint", lambda t: t.replace_tag("savepoint-5"), InvalidInputError, "is a savepoint and cannot be replaced"),
    (
        "savepoint",
        lambda t: t.rename_tag("savepoint-5", "q"),
        InvalidInputError,
        "is a savepoint and cannot be renamed",
    ),
    # savepoints
    (
        "none",
        lambda t: t.delete_savepoint(3),
        SavepointNotFoundError,
        "table db.t has no savepoint 3; its savepoints are 5",
    ),
    ("minus", lambda t: t.delete_savepoint(-5), SavepointNotFoundError, "has no savepoint -5; its savepoints are 5"),
    ("text", lambda t: t.delete_savepoint("5"), InvalidInputError, "'5' is not a savepoint of table db.t: give its id"),
    # versions to read
    ("unknown", lambda t: t.at("nope"), VersionNotFoundError, "table db.t has no version 'nope'"),
    ("expired", lambda t: t.at(1), SnapshotExpiredError, "snapshot 1 of table db.t has expired"),
    ("to come", lambda t: t.at("snapshot.9"), NotFoundError, "has no snapshot 9"),
    ("none", lambda t: t.at(None), InvalidInputError, "None is not a version of table db.t; give a snapshot id"),
    ("two", lambda t: t.create_tag("q", 2, snapshot_id=2), InvalidInputError, "give one"),
    ("two", lambda t: t.create_branch("q", version=2, snapshot=2), InvalidInputError, "give one of them"),
    # versions to go back to
    (
        "none",
        lambda t: t.rollback_to(None),
        InvalidInputError,
        "None is not a version of table db.t: give a snapshot id",
    ),
    ("blank", lambda t: t.rollback_to(" "), VersionSyntaxError, "the version is blank; give a snapshot id, a tag"),
    (
        "unknown",
        lambda t: t.rollback_to("v3"),
        VersionNotFoundError,
        r"no version 'v3'; did you mean 'v1' or 'v2'\? On branch 'main' its snapshots alive are 2 to 5; its tags are",
    ),
    ("expired", lambda t: t.rollback_to(1), SnapshotExpiredError, "snapshot 1 of table db.t has expired"),
    ("to come", lambda t: t.rollback_to("snapshot.9"), NotFoundError, "has no snapshot 9"),
    (
        "elsewhere",
        lambda t: t.rollback_to("fix.f1"),
        InvalidInputError,
        "is on branch 'fix' of table db.t, and table db.t",
    ),
    ("elsewhere", lambda t: t.rollback_to_as_latest("fix"), InvalidInputError, "open that branch to roll it back"),
    ("unknown", lambda t: t.rollback_to_as_latest("v3"), VersionNotFoundError, "no version 'v3'; did you mean"),
    ("float", lambda t: t.rollback_to_as_latest(2.0), InvalidInputError, "2.0 is not a version of table db.t"),
    # branches
    (
        "there",
        lambda t: t.create_branch("fix", empty=True),
        BranchAlreadyExistsError,
        "table db.t already has a branch 'fix'; use",
    ),
    ("there", lambda t: t.rename_branch("fix", "empty"), BranchAlreadyExistsError, "already has a branch 'empty'"),
    ("itself", lambda t: t.rename_branch("fix", "fix"), BranchAlreadyExistsError, "already has a branch 'fix'"),
    (
        "no tag",
        lambda t: t.create_branch("q", tag="v3"),
        TagNotFoundError,
        "table db.t has no tag 'v3'; did you mean 'v1' or 'v2'.; its tags are savepoint-5, v1, v2",
    ),
    ("no name", lambda t: t.create_branch("q", tag=2), InvalidInputError, "give a snapshot as snapshot_id="),
    ("version", lambda t: t.create_branch("q", tag="fix.f1"), TagNotFoundError, "table db.t has no tag 'fix.f1'"),
    ("two", lambda t: t.create_branch("q", tag="v1", snapshot_id=4), InvalidInputError, "give one of them"),
    (
        "gone",
        lambda t: t.create_branch("q", snapshot_id=1),
        SnapshotExpiredError,
        "snapshot 1 of table db.t has expired",
    ),
    ("none", lambda t: t.create_branch("q", snapshot_id=99), SnapshotNotFoundError, "table db.t has no snapshot 99"),
    ("text", lambda t: t.create_branch("q", snapshot_id="2"), PaimonError, "'2'"),
    (
        "main",
        lambda t: t.delete_branch("main"),
        InvalidInputError,
        "main of table db.t cannot be deleted; drop the table",
    ),
    (
        "main",
        lambda t: t.rename_branch("main", "q"),
        InvalidInputError,
        "'main' of table db.t cannot be renamed: it is",
    ),
    # publishing
    ("main", lambda t: t.merge_branch("main"), InvalidInputError, "that is main itself; name the branch to publish"),
    (
        "empty",
        lambda t: t.merge_branch("empty"),
        InvalidInputError,
        "it has no snapshot",
    ),
    (
        "empty",
        lambda t: t.replace_main("empty"),
        InvalidInputError,
        "'empty' of table db.t is refused: it has no snapshot",
    ),
    (
        "old",
        lambda t: t.merge_branch("fix", snapshot=2),
        InvalidInputError,
        "snapshot 2 is not newer than 2, where the b",
    ),
    (
        "none",
        lambda t: t.merge_branch("fix", snapshot=99),
        SnapshotNotFoundError,
        "branch 'fix' of table db.t has no sn",
    ),
    (
        "word",
        lambda t: t.merge_branch("fix", snapshot="v9"),
        VersionNotFoundError,
        "branch 'fix' of table db.t has no ver",
    ),
    (
        "blank",
        lambda t: t.merge_branch("fix", snapshot=""),
        InvalidInputError,
        "snapshot='' is not a version; name a snapsh",
    ),
    (
        "bool",
        lambda t: t.merge_branch("fix", snapshot=True),
        InvalidInputError,
        "snapshot=True is not a version; name a",
    ),
    (
        "float",
        lambda t: t.merge_branch("fix", snapshot=3.0),
        InvalidInputError,
        "snapshot=3.0 is not a version; name a",
    ),
    (
        "of main",
        lambda t: t.merge_branch("fix", snapshot="main"),
        InvalidInputError,
        "is a version of table db.t; name",
    ),
    (
        "on a branch",
        lambda t: t.branch("same").merge_branch("fix"),
        InvalidInputError,
        "call it on the table opened with",
    ),
    (
        "on a branch",
        lambda t: t.branch("same").replace_main("fix"),
        InvalidInputError,
        "of 'fix' was called on branch 'same'",
    ),
    ("keys", lambda t: t.append_branch("fix"), UnsupportedFeatureError, "table db.t has primary keys|has primary keys"),
    (
        "itself",
        lambda t: t.append_branch("fix", target="fix"),
        InvalidInputError,
        "cannot be appended to itself; name two branches",
    ),
    ("main itself", lambda t: t.append_branch("main"), InvalidInputError, "'main' of table db.t cannot be appended to"),
    ("target", lambda t: t.append_branch("fix", target="nope"), BranchNotFoundError, "table db.t has no branch 'nope'"),
    # how much is kept
    (
        "0",
        lambda t: t.expire_snapshots(retain_min=0),
        InvalidInputError,
        "retain_min = 0 for table db.t: at least one is",
    ),
    ("text", lambda t: t.expire_snapshots("3"), InvalidInputError, "retain_max = '3': expected a whole number"),
    (
        "two",
        lambda t: t.expire_snapshots(1, retain_min=5),
        InvalidInputError,
        "retain_max = 1 is less than retain_min = 5",
    ),
    (
        "minus",
        lambda t: t.expire_snapshots(max_deletes=-1),
        InvalidInputError,
        "max_deletes = -1 for table db.t: give 0",
    ),
    ("bool", lambda t: t.expire_changelogs(True), InvalidInputError, "retain_max = True: expected a whole number"),
    (
        "age",
        lambda t: t.expire_partitions(5),
        InvalidInputError,
        "5 for partitions of table db.t: a number does not say",
    ),
    ("no age", lambda t: t.expire_partitions(), InvalidInputError, "partitions of table db.t never expire; set option"),
    ("regex", lambda t: t.clear_consumers("("), InvalidInputError, r"including = '\(' is not a regular expression"),
    (
        "regex",
        lambda t: t.clear_consumers(7),
        InvalidInputError,
        "including = 7 is not a regular expression: it is not text",
    ),
    (
        "consumer",
        lambda t: t.reset_consumer(7, next_snapshot=2),
        InvalidInputError,
        "7 cannot be the name of a consumer of table db.t",
    ),
    ("partition", lambda t: t.compact(partitions=7), InvalidInputError, "a partition of table db.t is named by values"),
    ("purge", lambda t: t.branch("fix").purge(), InvalidInputError, "'fix'"),
]


@pytest.mark.parametrize(
    ("ask", "error", "text"), [case[1:] for case in CASES], ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_bad_input_is_told_and_changes_nothing(t: Table, ask: Ask, error: type[PaimonError], text: str) -> None:
    with pytest.raises(error, match=text):
        ask(t)


VERBS: dict[str, tuple[Any, ...]] = {
    "create_tag": ("q",), "replace_tag": ("v1",), "rename_tag": ("v1", "q"), "delete_tag": ("v1",), "expire_tags": (),
    "previous_tag": ("v1",), "next_tag": ("v1",), "create_automatic_tags": (), "create_savepoint": (),
    "delete_savepoint": (5,), "rollback_to": ("v1",), "rollback_to_as_latest": ("v1",), "create_branch": ("q",),
    "rename_branch": ("fix", "q"), "delete_branch": ("fix",), "append_branch": ("fix",), "merge_branch": ("fix",),
    "fast_forward": ("fix",), "replace_main": ("fix",), "doctor": (), "expire_snapshots": (9,),
    "expire_changelogs": (9,), "expire_partitions": ("1 d",), "consumers": (), "reset_consumer": ("c",),
    "clear_consumers": (), "remove_orphan_files": (), "purge": (), "compact": (), "compact_manifest": (), "rescale": (),
    "diff": ("v1",), "status": (), "history": (), "drop_partitions": ({"dt": "a"},), "undo": (),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_called_on_a_branch_at_its_head(t: Table, catalog: Catalog, verb: str) -> None:
    for opened in (t.at("v1"), t.at("fix.f1"), t.branch("fix").at(2)):
        with pytest.raises(
            InvalidInputError, match=r"was opened at version '.*', which never changes and is only read"
        ):
            getattr(opened, verb)(*VERBS[verb])
    with pytest.raises(
        InvalidInputError, match=r"db\.t\$tags is a system table, which is only read; open table db\.t it"
    ):
        getattr(catalog.table("db.t$tags"), verb)(*VERBS[verb])


def test_every_verb_is_among_them() -> None:
    bases = [base for base in Table.__mro__[1:-1] if base is not OpenedTable]
    own = {name for base in bases for name in vars(base) if not name.startswith("_")}
    assert own == set(VERBS)


@pytest.mark.parametrize("verb", [*VERBS, "tags", "branches", "savepoints", "snapshots"])
def test_a_dropped_table_is_not_there_and_stays_away(tmp_path: Path, verb: str) -> None:
    catalog = a_catalog(tmp_path)
    catalog.create_table("db.gone", SCHEMA, partition_keys=["dt"])
    table = catalog.table("db.gone")
    catalog.drop_table("db.gone")
    with pytest.raises(TableNotFoundError, match=r"db\.gone no longer exists: |db\.db/gone is no Paimon table: "):
        getattr(table, verb)(*VERBS.get(verb, ()))
    assert list((tmp_path / "db.db").iterdir()) == []


def test_an_empty_table_has_nothing_to_keep(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    catalog.create_table("db.e", SCHEMA)
    e = catalog.table("db.e")
    for ask, text in (
        (lambda: e.create_tag("q"), "table db.e has no snapshot yet, so there is nothing to tag; write rows first"),
        (lambda: e.create_savepoint(), "table db.e has no snapshot yet, so there is nothing to save; write rows first"),
        (lambda: e.rollback_to(1), "table db.e has no snapshot 1: it has no snapshot"),
        (lambda: e.create_branch("q", snapshot_id=1), "table db.e has no snapshot 1: it has no snapshot"),
    ):
        with pytest.raises(SnapshotNotFoundError, match=text):
            ask()
    assert (e.tags(include_internal=True), e.branches(include_internal=True), e.snapshots(), e.doctor()) == (
        [],
        [],
        [],
        [],
    )


def test_a_branch_that_a_tag_would_hide_is_refused(tmp_path: Path) -> None:
    t = a_table(SCHEMA, where=tmp_path)
    put(t, (1, "2024-01-01"))
    t.create_tag("fix.v1")
    t.create_branch("other", empty=True)
    for ask in (lambda: t.create_branch("fix", empty=True), lambda: t.rename_branch("other", "fix")):
        with pytest.raises(
            InvalidInputError, match=r"'fix\.v1' is a tag, which would then be version 'v1' on the bran"
        ):
            ask()
    assert [b.name for b in t.branches(include_internal=True)] == ["other"]


def test_a_branch_is_deleted_in_a_dry_run_first(tmp_path: Path) -> None:
    t = a_table(SCHEMA, where=tmp_path)
    put(t, (1, "2024-01-01"))
    t.create_branch("fix", snapshot_id=1)
    put(t.branch("fix"), (2, "2024-01-01"))
    before = listing(t.location)
    told = t.delete_branch("fix", dry_run=True)
    assert listing(t.location) == before
    assert (told.data_files, told.snapshots) == (1, ("fix.1", "fix.2"))
    assert t.delete_branch("fix") == told
    with pytest.raises(BranchNotFoundError, match="no branch 'fix'"):
        t.delete_branch("fix", dry_run=True)
