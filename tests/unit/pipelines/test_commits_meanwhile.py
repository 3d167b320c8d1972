"""Writers commit to main right before any call to the store of a publication of several tables: none is lost."""

from __future__ import annotations

import pytest

from paimon_spark.pipelines.branching import create_pipeline_branch
from paimon_spark.pipelines.publishing import publish, undo_release
from paimon_spark.pipelines.records import list_release_records
from tests.harness.acting_store import ActingStore
from tests.harness.commits_beside import Act, commits_across, commits_around, commits_beside
from tests.unit.pipelines.warehouse import TABLES, SmallWarehouse


def branched(*, moved: bool) -> SmallWarehouse:
    """With a pipeline branch `fix` of one commit; with `moved` main has one too."""
    made = SmallWarehouse.new(ActingStore)
    for table in TABLES:
        made.commit(table, f"{table}1")
    create_pipeline_branch(made.warehouse, "fix", made.handles, dict.fromkeys(TABLES, 1))
    for table in TABLES:
        made.commit(table, f"{table}fix", "fix")
        if moved:
            made.commit(table, f"{table}moved")
    return made


def published() -> SmallWarehouse:
    made = branched(moved=True)
    release(made, "replace")
    return made


def release(
    made: SmallWarehouse, if_main_moved: str, only_on: int | None = None, only_if_main_is: int | None = None
) -> None:
    heads, branches = dict.fromkeys(TABLES, 2), dict.fromkeys(TABLES, "fix")
    demanded = None if only_on is None else dict.fromkeys(TABLES, only_on)
    publish(
        made.warehouse,
        branches,
        made.handles,
        snapshots=heads,
        name="fix",
        if_main_moved=if_main_moved,
        only_on=demanded,
        only_if_main_is=None if only_if_main_is is None else dict.fromkeys(TABLES, only_if_main_is),
    )


def undo(made: SmallWarehouse, if_main_moved: str) -> None:
    undo_release(made.warehouse, list_release_records(made.warehouse)[-1], made.handles, if_main_moved=if_main_moved)


def has_fix(made: SmallWarehouse, table: str) -> bool:
    return f"{table}fix" in made.live(table)


def lacks_fix(made: SmallWarehouse, table: str) -> bool:
    return not has_fix(made, table)


ACTS = {
    "refuse": Act(lambda: branched(moved=False), lambda made: release(made, "refuse"), True, has_fix, TABLES),
    "refuse other heads": Act(
        lambda: branched(moved=False), lambda made: release(made, "refuse", 1), True, has_fix, TABLES
    ),
    "replace": Act(lambda: branched(moved=True), lambda made: release(made, "replace"), False, has_fix, TABLES),
    "replace only snapshot 2": Act(
        lambda: branched(moved=True), lambda made: release(made, "replace", only_if_main_is=2), True, has_fix, TABLES
    ),
    "undo": Act(published, lambda made: undo(made, "refuse"), True, lacks_fix, TABLES),
    "undo, replace": Act(published, lambda made: undo(made, "replace"), False, lacks_fix, TABLES),
}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("refuse", 70),
        ("replace", 70),
        ("replace only snapshot 2", 70),
        *(pytest.param(n, 1, marks=pytest.mark.slow) for n in ACTS),
    ],
)
def test_no_commit_beside_a_publication_is_lost(name: str, step: int) -> None:
    act = ACTS[name]
    ends, told = commits_beside(act, step)
    assert ends == ({True, False} if act.keeps else {True})
    assert told.made and told.refused


@pytest.mark.parametrize("name", [n if n == "replace" else pytest.param(n, marks=pytest.mark.slow) for n in ACTS])
def test_no_commit_during_which_all_is_published_is_lost(name: str) -> None:
    assert commits_around(ACTS[name]).made


@pytest.mark.parametrize(
    ("name", "step"), [("refuse", 70), *(pytest.param(n, 1, marks=pytest.mark.slow) for n in ACTS)]
)
def test_no_commit_that_outlasts_a_publication_is_lost(name: str, step: int) -> None:
    ends, told = commits_across(ACTS[name], step)
    assert ends == ({True, False} if ACTS[name].keeps else {True})
    assert told.made and told.refused
