"""Tables with keys, written and compacted in any order: rows, changelog and files against a dictionary model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.compaction import bucket_merge
from paimon_spark.engine.compaction.pick import last_level
from paimon_spark.engine.merge.sorted_merge import SequenceField
from paimon_spark.engine.write import merge_tree
from tests.harness import merge_model as model
from tests.harness.compacting import ENGINES, VALUES, Table, expected_changelog, merge_commit
from tests.harness.merge_model import Record

pytestmark = pytest.mark.slow

ADDS = {"deduplicate": (0, 1, 2, 3), "first-row": (0,), "partial-update": (0, 2), "aggregation": (0, 2)}
"""Kinds of rows with which the outcome hangs on no compaction."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    base = tmp_path_factory.mktemp("tables")
    return lambda: str(base / uuid4().hex)


@st.composite
def histories(draw: st.DrawFn, kinds: tuple[int, ...], steps: int = 10) -> list[list[Record] | str]:
    """Commits (records) and compactions ("minor", "full")."""
    out: list[list[Record] | str] = []
    for _ in range(draw(st.integers(2, steps))):
        if draw(st.integers(0, 3)) == 0:
            out.append(draw(st.sampled_from(["minor", "minor", "full"])))
            continue
        low = draw(st.integers(0, 12))
        rows = draw(
            st.lists(st.tuples(st.integers(low, low + 5), st.sampled_from(kinds), VALUES), min_size=1, max_size=8)
        )
        out.append([Record(k, n, kind, 0, values) for n, (k, kind, values) in enumerate(rows)])
    return out


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, str]:
    """Options that make buckets of many shapes out of few rows."""
    trigger = draw(st.integers(2, 4))
    out = {"num-sorted-run.compaction-trigger": str(trigger), "write-only": "true"}
    out["target-file-size"] = draw(st.sampled_from(["1 b", "1 gb"]))
    out["compaction.max-size-amplification-percent"] = draw(st.sampled_from(["200", "100000"]))
    if draw(st.booleans()):
        out["num-levels"] = str(draw(st.integers(3, 6)))
    if draw(st.booleans()):
        out["compaction.force-up-level-0"] = "true"
    if draw(st.integers(0, 4)) == 0:
        out["compaction.force-rewrite-all-files"] = "true"
    return out


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_tree, "_BATCH_ROWS", 3)
    monkeypatch.setattr(bucket_merge, "_BATCH_ROWS", 3)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@settings(max_examples=max(1, settings().max_examples // 6))
@given(data=st.data(), shape=shapes(), producer=st.sampled_from(["none", "full-compaction"]), same=st.booleans())
def test_what_readers_see_is_what_was_written_whatever_was_compacted(
    root: Callable[[], str], engine: str, data: st.DataObject, shape: dict[str, str], producer: str, same: bool
) -> None:
    options, rule, _ = ENGINES[engine]
    table = Table(
        root(),
        {**options, **shape, "changelog-producer": producer,
         "changelog-producer.row-deduplicate": str(same).lower()},
    )  # fmt: skip
    state: dict[int, Record] = {}
    published: dict[int, Record] = {}
    touched: set[int] = set()
    for number, step in enumerate(data.draw(histories(ADDS[engine]))):
        if isinstance(step, str):
            files = table.files()
            tasks = table.compact_as(full=step == "full")
            into_last = any(t.unit is not None and t.unit.level == last_level(files, table.handle.options.num_levels)
                            for t in tasks)  # fmt: skip
            if producer == "full-compaction" and into_last:
                expected = [
                    change
                    for key in sorted(touched)
                    for change in expected_changelog(engine, published.get(key), state.get(key), same)
                ]
                assert [(kind, key) for kind, key, _ in table.changelog()] == [(kind, key) for kind, key, _ in expected]
                assert [v for *_, v in table.changelog()] == [v for *_, v in expected]
                published, touched = dict(state), set()
            else:
                assert table.changelog() == []
            if step == "full":
                last = last_level(files, table.handle.options.num_levels)
                assert all(f.level == last and f.delete_row_count == 0 for f in table.files())
        else:
            table.write(step)
            merge_commit(rule, state, step, number)
            touched |= {r.key for r in step}
        assert table.rows() == [{"k": k, **state[k].values} for k in sorted(state)]
        table.check_files()
    if "compaction.force-rewrite-all-files" not in shape:
        table.compact_as(full=True)
        assert table.plan(full=True) == []
        assert table.plan(full=False) == []


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=max(1, settings().max_examples // 8))
@given(data=st.data(), shape=shapes(), kind=st.sampled_from(["lookup", "vectors", "both", "force", "full"]))
def test_tables_that_hide_level_0_show_all_rows_after_each_compaction(
    root: Callable[[], str], engine: str, data: st.DataObject, shape: dict[str, str], kind: str
) -> None:
    options, rule, _ = ENGINES[engine]
    own = {"lookup": {"changelog-producer": "lookup"}, "vectors": {"deletion-vectors.enabled": "true"},
           "both": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
           "force": {"force-lookup": "true"},
           "full": {"force-lookup": "true", "changelog-producer": "full-compaction"}}[kind]  # fmt: skip
    if engine == "first-row":
        own.pop("deletion-vectors.enabled", None)
        own = own if kind != "full" else {}
    table = Table(root(), {**options, **shape, **own})
    state: dict[int, Record] = {}
    waiting: list[tuple[int, list[Record]]] = []
    seen: dict[int, Record] = {}
    for number, step in enumerate(data.draw(histories(ADDS[engine]))):
        if not isinstance(step, str):
            table.write(step)
            waiting.append((number, step))
            merge_commit(rule, state, step, number)
            continue
        table.compact_as(full=step == "full")
        if own.get("changelog-producer") == "lookup" and not (step == "full" and not waiting):
            expected: list[Any] = []
            for key in sorted({r.key for _, rows in waiting for r in rows}):
                expected += expected_changelog(engine, seen.get(key), state.get(key), deduplicates=False)
            assert table.changelog() == expected
        seen, waiting = dict(state), []
        assert table.rows() == [{"k": k, **state[k].values} for k in sorted(state)]
        assert all(f.level > 0 for f in table.files())
        table.check_files()
        if step == "full":
            assert table.vectors() == []


@settings(max_examples=max(1, settings().max_examples // 6))
@given(history=histories((0, 1, 2, 3)), shape=shapes(), descending=st.booleans())
def test_sequence_fields_decide_across_levels(
    root: Callable[[], str], history: list[list[Record] | str], shape: dict[str, str], descending: bool
) -> None:
    order = "descending" if descending else "ascending"
    table = Table(root(), {**shape, "sequence.field": "s", "sequence.field.sort-order": order})
    fields = (SequenceField("s", descending),)
    before: Any = []
    alive: dict[int, Record] = {}
    for number, step in enumerate(history):
        if isinstance(step, str):
            table.compact_as(full=step == "full")
            assert table.rows() == before
        elif all(r.kind in (0, 2) for r in step):
            table.write(step)
            new = [Record(r.key, 100 * number + n, r.kind, 0, r.values) for n, r in enumerate(step)]
            merged = model.merged([*alive.values(), *new], model.deduplicate(False), sequence=fields)
            alive = {key: Record(key, number, kind, 5, values) for key, kind, values in
                     ((k, kd, v) for kd, k, v in merged)}  # fmt: skip
            before = [{"k": k, **alive[k].values} for k in sorted(alive)]
            assert table.rows() == before
        table.check_files()


@settings(max_examples=max(1, settings().max_examples // 6))
@given(history=histories((0, 1, 2, 3)), shape=shapes())
def test_a_compaction_changes_no_row_of_tables_that_take_values_back(
    root: Callable[[], str], history: list[list[Record] | str], shape: dict[str, str]
) -> None:
    table = Table(root(), {**ENGINES["aggregation"][0], **shape})
    for step in history:
        if isinstance(step, str):
            before = table.rows()
            table.compact_as(full=step == "full")
            assert table.rows() == before
            table.check_files()
        else:
            table.write(step)
