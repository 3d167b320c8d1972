"""Writers commit to main right before any call to the store of an operation that gives main another history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from paimon_spark.metadata.handle import TableHandle
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.merge import merge_branch
from paimon_spark.versioning.replace_main import replace_main
from paimon_spark.versioning.rollback import rollback_to
from paimon_spark.versioning.undo import undo
from tests.harness.acting_store import ActingStore
from tests.harness.commits_beside import Act, commits_across, commits_around, commits_beside
from tests.unit.pipelines.warehouse import SmallWarehouse

TABLE: Final = "db.a"


def branched(*, moved: bool) -> SmallWarehouse:
    """With a branch `fix` of one commit; with `moved` main has one too."""
    made = SmallWarehouse.new(ActingStore)
    made.commit(TABLE, "1")
    create_branch(made.on(TABLE), "fix")
    made.commit(TABLE, "fix", "fix")
    if moved:
        made.commit(TABLE, "moved")
    return made


def merged() -> SmallWarehouse:
    made = branched(moved=True)
    merge_branch(made.on(TABLE), "fix", if_main_moved="replace")
    return made


def has_fix(made: SmallWarehouse, table: str) -> bool:
    return "fix" in made.live(table)


def lacks_fix(made: SmallWarehouse, table: str) -> bool:
    return "fix" not in made.live(table)


def lacks_moved(made: SmallWarehouse, table: str) -> bool:
    return "moved" not in made.live(table)


def act(
    moved: bool,
    run: Callable[[TableHandle], object],
    keeps: bool,
    is_done: Callable[[SmallWarehouse, str], bool] = has_fix,
    before: Callable[[], SmallWarehouse] | None = None,
) -> Act:
    return Act(before or (lambda: branched(moved=moved)), lambda made: run(made.on(TABLE)), keeps, is_done, (TABLE,))


ACTS = {
    "merge_branch, refuse": act(False, lambda main: merge_branch(main, "fix"), True),
    "merge_branch, replace": act(True, lambda main: merge_branch(main, "fix", if_main_moved="replace"), False),
    "merge_branch, replace only snapshot 2": act(
        True, lambda main: merge_branch(main, "fix", if_main_moved="replace", only_if_main_is=2), True
    ),
    "fast_forward": act(True, lambda main: merge_branch(main, "fix", takes_back=True), False),
    "replace_main": act(True, lambda main: replace_main(main, "fix"), False),
    "rollback_to": act(True, lambda main: rollback_to(main, 1, backup=True), False, lacks_moved),
    "undo, refuse": act(True, undo, True, lacks_fix, merged),
    "undo, replace": act(True, lambda main: undo(main, if_main_moved="replace"), False, lacks_fix, merged),
}


QUICK = ("merge_branch, refuse", "merge_branch, replace", "undo, refuse")
SOME = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ACTS]


@pytest.mark.parametrize("step", [50, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ACTS)
def test_no_commit_beside_the_operation_is_lost(name: str, step: int) -> None:
    ends, told = commits_beside(ACTS[name], step)
    assert True in ends
    assert (False in ends) == ACTS[name].keeps, "main has moved for those that look"
    assert told.made and told.refused


@pytest.mark.parametrize("name", SOME)
def test_no_commit_during_which_the_operation_runs_is_lost(name: str) -> None:
    assert commits_around(ACTS[name]).made


@pytest.mark.parametrize("step", [50, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SOME)
def test_no_commit_that_outlasts_the_operation_is_lost(name: str, step: int) -> None:
    _, told = commits_across(ACTS[name], step)
    assert told.made and told.refused
