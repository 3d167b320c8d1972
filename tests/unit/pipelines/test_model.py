"""Random pipelines against a model: commits, branches, publications, undos and deletions, by processes that may die."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from paimon_spark.errors import BranchDivergedError, PaimonError
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.pipelines.branching import create_pipeline_branch, delete_pipeline_branch
from paimon_spark.pipelines.publishing import publish, undo_release
from paimon_spark.pipelines.records import get_branch_record, list_branch_records, list_release_records
from tests.harness.fault_store import MUTATING, Fault
from tests.harness.search import is_nightly
from tests.harness.table_files import missing_files
from tests.unit.pipelines.warehouse import TABLES, SmallWarehouse

History: TypeAlias = list[str]
"""The files that each snapshot of a branch added: snapshot 1 first."""


@dataclass
class Model:
    """What must be there.

    Attributes:
        main: table → history.
        branches: pipeline branch → table → history.
        releases: for each one table → the history of main before, of the tables that it changed.
        undone: numbers of releases that were undone, and of undos.
    """

    main: dict[str, History] = field(default_factory=lambda: {t: [] for t in TABLES})
    branches: dict[str, dict[str, History]] = field(default_factory=dict)
    releases: list[dict[str, History]] = field(default_factory=list)
    over: set[int] = field(default_factory=set)


Act: TypeAlias = Callable[[], object]


def commit(made: SmallWarehouse, model: Model, rng: random.Random, name: str) -> Act:
    table = rng.choice(TABLES)
    model.main[table].append(name)
    return lambda: made.commit(table, name)


def branch(made: SmallWarehouse, model: Model, rng: random.Random, name: str) -> Act | None:
    starts = {t: rng.choice([1, len(h), len(h)]) for t, h in model.main.items() if h and rng.random() < 0.8}
    if not starts:
        return None
    model.branches[name] = {t: model.main[t][:start] for t, start in starts.items()}
    return lambda: create_pipeline_branch(made.warehouse, name, {t: made.on(t) for t in starts}, starts)


def write(made: SmallWarehouse, model: Model, rng: random.Random, name: str) -> Act | None:
    if not model.branches:
        return None
    on = rng.choice(sorted(model.branches))
    table = rng.choice(sorted(model.branches[on]))
    model.branches[on][table].append(name)
    return lambda: made.commit(table, name, on)


def release(made: SmallWarehouse, model: Model, rng: random.Random, name: str) -> Act | None:
    if not model.branches:
        return None
    on = rng.choice(sorted(model.branches))
    if_main_moved = rng.choice(["refuse", "replace"])
    heads = {t: len(h) for t, h in model.branches[on].items()}
    before: dict[str, History] = {}
    for table, history in model.branches[on].items():
        main = model.main[table]
        if main[: len(history)] == history:
            continue  # main has every commit of the branch
        if if_main_moved == "refuse" and history[: len(main)] != main:
            model.over.add(-1)  # it must be refused
        before[table] = main
        model.main[table] = list(history)
    if before:  # else there is nothing to publish, and no release
        model.releases.append(before)
    handles = {t: made.on(t) for t in heads}
    branches = dict.fromkeys(heads, on)
    return lambda: publish(made.warehouse, branches, handles, snapshots=heads, name=on, if_main_moved=if_main_moved)


def undo(made: SmallWarehouse, model: Model, rng: random.Random, name: str) -> Act | None:
    numbers = [n for n, changed in enumerate(model.releases) if n not in model.over and changed]
    if not numbers:
        return None
    newest = numbers[-1]
    model.over |= {newest, len(model.releases)}
    model.releases.append({t: model.main[t] for t in model.releases[newest]})
    for table, history in model.releases[newest].items():
        model.main[table] = list(history)
    record = list_release_records(made.warehouse)[newest]
    handles = {t: made.on(t) for t in record.tables}
    return lambda: undo_release(made.warehouse, record, handles, if_main_moved="replace")


def delete(made: SmallWarehouse, model: Model, rng: random.Random, name: str) -> Act | None:
    if not model.branches:
        return None
    gone = rng.choice(sorted(model.branches))
    del model.branches[gone]
    record = get_branch_record(made.warehouse, gone)
    return lambda: delete_pipeline_branch(made.warehouse, record, {t: made.on(t) for t in record.tables})


ACTS = (commit, commit, branch, write, write, write, release, release, undo, delete)


def difference(made: SmallWarehouse, model: Model) -> str:
    """What is not as the model has it; empty for nothing. Finishes what processes left."""
    if len(list_release_records(made.warehouse)) != len(model.releases):
        return "the releases"
    if {r.name for r in list_branch_records(made.warehouse)} != set(model.branches):
        return "the pipeline branches"
    for table in TABLES:
        recover(made.on(table))
        if made.live(table) != set(model.main[table]):
            return f"main of {table}"
        names = {n for n in list_branch_names(made.on(table)) if not n.startswith("main_backup_")}
        if names != {n for n, its in model.branches.items() if table in its}:
            return f"the branches of {table}"
        for name in names:
            if made.live(table, name) != set(model.branches[name][table]):
                return f"branch {name} of {table}"
        assert [path for path in missing_files(made.on(table)) if "/bucket-" not in path] == []
    return ""


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(60 if is_nightly() else 6))
def test_random_pipelines_are_as_the_model_has_them(seed: int) -> None:
    rng = random.Random(seed)
    made, model = SmallWarehouse.new(), Model()
    seen = set[str]()
    for number in range(60):
        after = copy.deepcopy(model)
        act = rng.choice(ACTS)(made, after, rng, f"n{number}")
        if act is None:
            continue
        is_refused = -1 in after.over
        fault = Fault(rng.randint(1, 80), after=rng.random() < 0.5, forever=True, retryable=False, verbs=MUTATING)
        made.store.arm(fault if rng.random() < 0.5 else None)
        try:
            act()
        except PaimonError as e:
            died = bool(made.store.failed)
            made.store.arm(None)
            if died:
                seen.add("died")
                model = after if not is_refused and not difference(made, after) else model
            else:
                assert (type(e), is_refused) == (BranchDivergedError, True)  # noqa: PT017 - which it is depends
                seen.add("refused")
        else:
            made.store.arm(None)
            assert not is_refused
            model = after
            seen.add("done")
        assert difference(made, model) == ""
    assert {"done", "died"} <= seen
