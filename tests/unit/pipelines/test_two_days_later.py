"""A fault in a pipeline of tables of all kinds is corrected two days later, when snapshots have expired.

Five tables: events, and what jobs make of them with each merge engine, and a report that each run overwrites. The
branch starts before the fault, from snapshots that only tags keep. What it changed goes on top of main; the report
replaces main. What the tables must have is computed from lists of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.api.pipeline_branch import PipelineBranch
from paimon_spark.errors import BranchDivergedError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.retry import now_ms
from tests.harness.command_line import CommandLine
from tests.harness.real_tables import put
from tests.harness.table_files import files_on_disk, missing_files

Rows: TypeAlias = "Counter[tuple[Any, ...]]"
Shape: TypeAlias = Mapping[str, Any]

TABLES: Final = ("d.events", "d.users", "d.profiles", "d.totals", "d.report")
JOBS: Final = {"users": "d.events", "profiles": "d.events", "totals": "d.events", "report": "d.totals"}
"""Job, which writes the table of its name → the table that it reads."""
FAULT_AT: Final = 3
"""The faulty snapshot of the events."""
SUM: Final = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}
PARTIAL: Final = {"merge-engine": "partial-update"}


class Event(NamedTuple):
    """Something that a user did, with what it says about them."""

    id: int
    user: int
    name: str | None
    city: str | None
    amount: int


GOOD: Final = (
    [Event(1, 1, "Ann", "Rome", 10), Event(2, 2, "Bob", "Oslo", 20)],
    [Event(3, 3, "Cid", "Bern", 30), Event(4, 1, None, "Pisa", 1)],
)
FAULTY: Final = [Event(5, 9, "Bob", None, -40)]
RIGHT: Final = [Event(5, 2, "Bobby", None, 40)]
FAULTY_OF_SAME_USER: Final = Event(6, 3, "???", None, -5)
RIGHT_OF_SAME_USER: Final = Event(6, 3, None, "Bonn", 5)
DAYS: Final = ([Event(7, 1, None, "Milan", 60)], [Event(8, 7, "Gus", "Kyiv", 70), Event(9, 1, "Anna", None, 2)])
VIP: Final = (2, 7)
"""Users of whom production says so in the column that it added. The branch corrects the first of them."""


@dataclass(frozen=True)
class Story:
    """What differs between the stories.

    Attributes:
        removes: the merge engines can remove rows, so that rows can be replaced.
        same_user: the faulty events and the right ones are of one user, so that both sides change the same rows.
        folded: the branches are compacted and expire, too, so that the records that made their rows are gone.
        start: of the pipeline branch.
    """

    removes: bool = False
    same_user: bool = False
    folded: bool = False
    start: Mapping[str, Any] = field(default_factory=lambda: {"tag": "good"})

    @property
    def faulty(self) -> list[Event]:
        return [*FAULTY, FAULTY_OF_SAME_USER] if self.same_user else FAULTY

    @property
    def right(self) -> list[Event]:
        return [*RIGHT, RIGHT_OF_SAME_USER] if self.same_user else RIGHT

    @property
    def on_conflict(self) -> Literal["fail", "theirs"]:
        return "theirs" if self.same_user else "fail"

    @property
    def of_main(self) -> list[Event]:
        return [*(e for part in GOOD for e in part), *self.faulty, *(e for day in DAYS for e in day)]

    @property
    def of_branch(self) -> list[Event]:
        return [*(e for part in GOOD for e in part), *self.right]


def users_of(events: Iterable[Event]) -> dict[int, tuple[Any, ...]]:
    """User → their newest event and its amount."""
    return {e.user: (e.id, e.amount) for e in events}


def profiles_of(events: Iterable[Event]) -> dict[int, tuple[Any, ...]]:
    """User → the newest name and city that an event says."""
    found: dict[int, tuple[Any, ...]] = {}
    for e in events:
        name, city = found.get(e.user, (None, None))
        found[e.user] = (name if e.name is None else e.name, city if e.city is None else e.city)
    return found


def totals_of(events: Iterable[Event]) -> dict[int, tuple[Any, ...]]:
    """User → the sum of the amounts."""
    found: dict[int, tuple[Any, ...]] = {}
    for e in events:
        found[e.user] = (found.get(e.user, (0,))[0] + e.amount,)
    return found


OF_EVENTS: Final[dict[str, Callable[[Iterable[Event]], dict[int, tuple[Any, ...]]]]] = {
    "d.users": users_of,
    "d.profiles": profiles_of,
    "d.totals": totals_of,
}


def with_keys(rows: Mapping[int, tuple[Any, ...]]) -> Rows:
    return Counter((key, *row) for key, row in rows.items())


def tables_of(events: list[Event], vip: Iterable[int] | None = None) -> dict[str, Rows]:
    """The rows of all tables when the jobs have seen these events; `vip`: users who are, once the column is there."""
    found = {name: with_keys(of(events)) for name, of in OF_EVENTS.items()}
    if vip is not None:
        found["d.users"] = with_vip(found["d.users"], vip)
    return {**found, "d.events": Counter(map(tuple, events)), "d.report": found["d.totals"]}


def with_vip(rows: Rows, vip: Iterable[int]) -> Rows:
    return Counter((*row, True if row[0] in vip else None) for row in rows)


def published(story: Story) -> dict[str, Rows]:
    """Main after the branch is on top: the rows of users whom it corrected are the branch's, the report is its own."""
    corrected = {e.user for e in story.right}
    found = tables_of(story.of_main)
    for name, of in OF_EVENTS.items():
        main, branch = of(story.of_main), of(story.of_branch)
        found[name] = with_keys({**main, **{user: branch[user] for user in corrected}})
    return {
        **found,
        "d.users": with_vip(found["d.users"], VIP),
        "d.events": Counter(map(tuple, [*story.of_main, *story.right])),  # a rebase takes no commit of main away
        "d.report": with_keys(totals_of(story.of_branch)),
    }


class Warehouse:
    """The warehouse of a story, from its first commit to two days after the fault, with expired snapshots."""

    def __init__(self, folder: Path, story: Story) -> None:
        self.story = story
        self.path = str(folder / "wh")
        self.catalog = paimon_spark.load_catalog(self.path)
        catalog = self.catalog
        catalog.create_database("d")
        keys: Shape = {"primary_keys": ["user"]}
        partial, total = (
            {**options, f"{options['merge-engine']}.remove-record-on-delete": "true"} if story.removes else options
            for options in (PARTIAL, SUM)
        )
        catalog.create_table("d.events", "id BIGINT, user BIGINT, name STRING, city STRING, amount BIGINT")
        catalog.create_table("d.users", "user BIGINT, event BIGINT, amount BIGINT", options={"bucket": "2"}, **keys)
        catalog.create_table(
            "d.profiles", "user BIGINT, name STRING, city STRING", options={"bucket": "1", **partial}, **keys
        )
        catalog.create_table("d.totals", "user BIGINT, amount BIGINT", options={"bucket": "1", **total}, **keys)
        catalog.create_table("d.report", "user BIGINT, amount BIGINT")
        catalog.create_table("d.other", "id BIGINT")
        catalog.lineage.enable()
        for part in GOOD:
            load(catalog, part)
            run_jobs(catalog, part)
        for name in TABLES:
            catalog.table(name).create_tag("good")
        load(catalog, story.faulty)
        run_jobs(catalog, story.faulty)
        assert catalog.table("d.events").snapshots()[-1].id == FAULT_AT
        for day, events in enumerate(DAYS, 1):
            if day == 2:
                catalog.table("d.users").alter(add={"vip": "BOOLEAN"})
            load(catalog, events)
            run_jobs(catalog, events)
        newest = users_of(story.of_main)
        put(catalog.table("d.users"), *((user, *newest[user], True) for user in VIP))
        for name in TABLES:
            catalog.table(name).create_tag("month-end")
        self.expire()
        assert self.rows() == tables_of(story.of_main, VIP)

    def table(self, name: str, branch: str = "main") -> Table:
        return self.catalog.table(name).branch(branch)

    def expire(self, branch: str = "main") -> None:
        """Keep one snapshot of each table, and those of tags."""
        for name in TABLES:
            table = self.table(name, branch)
            table.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
            assert len(table.snapshots()) == 1

    def branch(self) -> PipelineBranch:
        """The pipeline branch, as it is created: nothing is replayed."""
        made = self.catalog.pipeline("d.events").branch("fix", **self.story.start)
        good = {t.name: t.snapshot.id for t in self.table("d.events").tags(include_internal=True)}["good"]
        assert made.tables == {**dict.fromkeys(TABLES, 2), "d.events": good}
        return made

    def replay(self) -> None:
        """Write the right events to the branch, and run the jobs there as they are."""
        on_branch = paimon_spark.load_catalog(self.path, branch="fix")
        load(on_branch, self.story.right)
        run_jobs(on_branch, self.story.right)
        if self.story.folded:
            for name in TABLES:
                self.table(name, "fix").compact(full=True)
            self.expire("fix")
        assert self.rows("fix") == tables_of(self.story.of_branch)

    def rows(self, branch: str = "main") -> dict[str, Rows]:
        return {name: rows_of(self.table(name, branch)) for name in TABLES}

    def state(self) -> dict[str, Any]:
        """What anybody can see of each table."""
        found: dict[str, Any] = {"releases": [r.id for r in self.catalog.releases()]}
        for name in TABLES:
            table = self.table(name)
            branches = ["main", *(b.name for b in table.branches(include_internal=True))]
            found[name] = {
                branch: (rows_of(opened), columns(opened), snapshots(opened), tags(opened), opened.schema.id)
                for branch in branches
                for opened in [self.table(name, branch)]
            }
        return found

    def files(self) -> set[str]:
        """Every file of the tables."""
        return {file.path for name in TABLES for file in files_on_disk(self.table(name).handle)}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Check that nothing of any table changes, not even a file that nobody sees."""
        before, files = self.state(), self.files()
        yield
        assert self.state() == before
        assert self.files() == files


def load(catalog: Catalog, events: Iterable[Event]) -> None:
    """What comes in from outside."""
    put(catalog.table("d.events"), *events)


def run_jobs(catalog: Catalog, events: list[Event]) -> None:
    """Each job reads its source; all but the report write records of the new events only."""
    records = {
        "users": with_keys(users_of(events)),
        "profiles": [(e.user, e.name, e.city) for e in events],
        "totals": [(e.user, e.amount) for e in events],
    }
    for job, source in JOBS.items():
        named: dict[str, Any] = {"lineage.job": job}
        read = catalog.table(source).scan(**named).to_arrow()
        if job == "report":
            catalog.table("d.report").write(read, mode="overwrite", **named)
        else:
            assert {e.id for e in events} <= set(read["id"].to_pylist())
            put(catalog.table(f"d.{job}"), *records[job], **named)


def rows_of(table: Table) -> Rows:
    return Counter(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def columns(table: Table) -> list[tuple[str, str]]:
    return [(f.name, str(f.type)) for f in table.schema.fields]


def snapshots(table: Table) -> list[tuple[int, str]]:
    return [(s.id, s.commit_user) for s in table.snapshots()]


def tags(table: Table) -> dict[str, int]:
    return {t.name: t.snapshot.id for t in table.tags(include_internal=True) if t.guards is None}


def on_main(found: Mapping[str, Any]) -> dict[str, Any]:
    """Of a state: main of each table, without the tags of releases."""
    out = {}
    for name in TABLES:
        rows, its_columns, its_snapshots, its_tags, schema = found[name]["main"]
        kept = {tag: at for tag, at in its_tags.items() if not tag.startswith("release-")}
        out[name] = rows, its_columns, its_snapshots, kept, schema
    return out


STORIES: Final = {
    "records on top": Story(),
    "rows are replaced": Story(removes=True, same_user=True),
    "branches expired": Story(removes=True, same_user=True, folded=True),
    "before": Story(start={"before": ("d.events", FAULT_AT)}),
}


@pytest.fixture(params=STORIES)
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path, STORIES[request.param])


def test_the_correction_is_on_top_of_two_days_of_production(told: Warehouse) -> None:
    story, before = told.story, told.state()
    fix = told.branch()
    notes = {step.job: step.notes for step in fix.replay_plan()}
    assert notes.keys() == JOBS.keys()
    (note,) = notes["report"]
    assert note.startswith("d.report, rebased: main has rewritten or removed")
    assert notes["users"] == ()
    for job, engine in (("profiles", "partial-update"), ("totals", "aggregation")):
        limit = f"d.{job}, rebased: with merge-engine {engine} "
        assert [n[: len(limit)] for n in notes[job]] == ([] if story.removes else [limit])
    assert on_main(told.state()) == on_main(before)
    told.replay()
    refused = r"of table d\.report was not rebased: .* replace=\['d\.report'\], so that main of this table alone"
    for dry_run in (True, False):
        with told.unchanged(), pytest.raises(BranchDivergedError, match=refused):
            fix.publish(if_main_moved="rebase", on_conflict=story.on_conflict, dry_run=dry_run)
    if story.same_user:
        with told.unchanged(), pytest.raises(BranchDivergedError, match=r"main changed 1 key .* \(user=3\)"):
            fix.publish(if_main_moved="rebase", replace=["d.report"])
    with told.unchanged():
        planned = fix.publish(if_main_moved="rebase", on_conflict=story.on_conflict, replace=["d.report"], dry_run=True)
    release = fix.publish(if_main_moved="rebase", on_conflict=story.on_conflict, replace=["d.report"])
    assert (planned.id, planned.record.lost) == (0, release.record.lost)
    assert planned.record.lost == {"d.report": "1 snapshot (5), 1 tag (month-end)"}
    assert planned.tables.keys() == release.tables.keys() == set(TABLES)
    for name, head in planned.tables.items():  # a compaction may come on top
        later = [s.commit_kind for s in told.table(name).snapshots() if s.id > head]
        assert set(later) <= {CommitKind.COMPACT} and head <= release.tables[name]
    assert told.rows() == published(story)
    assert {name: rows_of(release.table(name)) for name in TABLES} == published(story)
    nothing_of_production_is_lost(told, before, release.backups)
    release.undo()
    assert on_main(told.state()) == on_main(before)
    fix.delete()
    assert all(missing_files(told.table(name).handle) == [] for name in TABLES)


def nothing_of_production_is_lost(told: Warehouse, before: Mapping[str, Any], backups: Mapping[str, str]) -> None:
    """Main still has its snapshots, tags and columns; the report has them on its backup branch."""
    assert set(backups) == set(TABLES)
    for name in TABLES:
        rows, its_columns, its_snapshots, its_tags, _ = before[name]["main"]
        backup = told.table(name, backups[name])
        assert rows_of(backup) == rows
        assert columns(backup) == its_columns
        where = backup if name == "d.report" else told.table(name)
        assert columns(where) == its_columns
        assert set(its_snapshots) <= set(snapshots(where))
        assert its_tags.items() <= {**tags(told.table(name)), **tags(where)}.items()
        assert rows_of(where.at("month-end")) == rows
        assert rows_of(told.table(name).at("good")) == tables_of([e for part in GOOD for e in part])[name]
        assert missing_files(where.handle) == []


def test_without_all_snapshots_of_the_branch_a_total_cannot_be_rebased(tmp_path: Path) -> None:
    told = Warehouse(tmp_path, Story(folded=True))
    fix = told.branch()
    told.replay()
    for dry_run in (True, False):
        with told.unchanged(), pytest.raises(UnsupportedFeatureError, match=r"it changed 1 row .* merge-engine aggr"):
            fix.publish(if_main_moved="rebase", replace=["d.report"], dry_run=dry_run)
    release = fix.publish(if_main_moved="rebase", replace=["d.totals", "d.report"])
    assert told.rows() == {
        **published(told.story),
        "d.totals": with_keys(totals_of(told.story.of_branch)),
    }
    assert release.record.lost.keys() == {"d.totals", "d.report"}


def test_production_goes_on_from_the_release_and_an_undo_must_say_so(tmp_path: Path) -> None:
    told = Warehouse(tmp_path, Story(removes=True, same_user=True))
    fix = told.branch()
    told.replay()
    release = fix.publish(if_main_moved="rebase", on_conflict="theirs", replace=["d.report"])
    now = published(told.story)
    run_jobs(told.catalog, [])  # the report of all that main has now
    assert told.rows() == {**now, "d.report": now["d.totals"]}
    with told.unchanged(), pytest.raises(BranchDivergedError, match=r"d\.report"):
        release.undo()
    undone = release.undo(if_main_moved="replace")
    assert told.rows() == tables_of(told.story.of_main, VIP)
    undone.undo()
    assert told.rows() == {**now, "d.report": now["d.totals"]}


def test_tables_that_a_rebase_may_refuse_are_told_also_where_the_pipeline_begins(tmp_path: Path) -> None:
    told = Warehouse(tmp_path, Story())
    told.table("d.events").delete("id = 1")
    told.expire()
    planned = told.catalog.pipeline("d.events").branch("fix", tag="good", dry_run=True)
    assert [step.notes for step in planned.replay_plan()] == [()] * 4
    (limit,) = told.branch().table("d.events").status().rebase_limits
    steps = told.catalog.pipeline_branch("fix").replay_plan()
    assert [f"d.events, rebased: {limit}" in step.notes for step in steps] == [True, False, False, False]
    assert f"note: d.events, rebased: {limit}" in str(steps[0])


def test_only_tables_of_the_pipeline_are_replaced(tmp_path: Path) -> None:
    told = Warehouse(tmp_path, Story())
    fix = told.branch()
    with told.unchanged():
        for how in ("refuse", "replace", "rebase"):
            for replaced, message in (
                (["d.other"], "no table 'd.other'; it has d.events, "),
                (["d.report", "report"], "no table 'report'"),
                ("d.report", "expected a list of tables"),
            ):
                with pytest.raises(InvalidInputError, match=message):
                    fix.publish(if_main_moved=how, replace=replaced)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, cli = Warehouse(tmp_path, Story()), CommandLine(tmp_path / "wh", capsys)
    cli.done("pipeline", "branch", "fix", "d.events", "--tag", "good")
    assert "note: d.report, rebased: main has rewritten or removed" in cli.done("pipeline", "replay", "fix").out
    assert "rebase: main has rewritten or removed" in cli.done("status", "d.report").out
    told.replay()
    publish = ("pipeline", "publish", "fix", "--if-main-moved", "rebase")
    with told.unchanged():
        for more in ("--yes", "--dry-run"):
            refused = cli(*publish, more)
            assert refused.code != 0 and "d.report was not rebased" in refused.err
        assert "no table 'd.other'" in cli(*publish, "--replace", "d.other", "--yes").err
        shown = cli.done(*publish, "--replace", "d.report", "--dry-run").out
        assert "d.report  snapshot 3, main would lose 1 snapshot (5)" in shown
    done = cli.done(*publish, "--replace", "d.report", "--yes", "--json").json
    assert done["tables"]["d.report"] == 3
    assert told.rows() == published(told.story)
    cli.done("release", "undo", "--yes")
    assert told.rows() == tables_of(told.story.of_main, VIP)
