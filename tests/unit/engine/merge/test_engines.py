"""Merge engines against a model of dictionaries, on random runs, in windows of a few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.merge.functions import create_merge_function
from paimon_spark.engine.merge.sorted_merge import MergePlan, SequenceField, merge_runs, surviving_rows
from paimon_spark.errors import DataError
from paimon_spark.options.table import parse_table_options
from paimon_spark.types import VALUE_KIND
from tests.harness import merge_model as model
from tests.harness.merge_model import Record
from tests.harness.search import examples

COLUMNS = {"a": "INT", "b": "STRING", "s": "INT", "t": "INT"}
ARROW = {"a": pa.int32(), "b": pa.string(), "s": pa.int32(), "t": pa.int32()}
SMALL = st.none() | st.integers(-3, 3)
VALUES = st.fixed_dictionaries(
    {"a": SMALL, "b": st.none() | st.sampled_from(["", "x", "y", "z"]), "s": SMALL, "t": SMALL}
)
ALL_KINDS = (0, 1, 2, 3)


@st.composite
def runs(draw: st.DrawFn, kinds: tuple[int, ...] = ALL_KINDS) -> list[list[Record]]:
    """Sorted runs: a key at most once in each, sequence numbers unique, levels 0 (many) and above (once each)."""
    count = draw(st.integers(1, 5))
    deep = draw(st.integers(0, 2))
    sequences = iter(draw(st.permutations(range(count * 8))))
    out = []
    for number in range(count):
        keys = draw(st.sets(st.integers(0, 7), max_size=8))
        level = 5 - number if number < deep else 0
        out.append(
            [Record(k, next(sequences), draw(st.sampled_from(kinds)), level, draw(VALUES)) for k in sorted(keys)]
        )
    return out


def check(
    data: list[list[Record]],
    options: dict[str, str],
    function: Callable[[list[Record]], Any],
    *,
    sequence: tuple[SequenceField, ...] = (),
    levels: bool = False,
    keep_deletes: bool = True,
    window: int = 2,
    columns: dict[str, str] | None = None,
    arrow: dict[str, pa.DataType] | None = None,
) -> None:
    """What `merge_runs` gives equals what the model gives; refusals too."""
    columns, arrow = columns or COLUMNS, arrow or ARROW
    schema = model.table(columns, options)
    plan = MergePlan(
        create_merge_function(schema, parse_table_options(options)),
        ("k",),
        sequence,
        ("k", *columns),
        keep_deletes,
        3,
    )
    inputs = [model.batches(run, arrow, levels, 2) for run in data]
    records = [r for run in data for r in run]
    try:
        expected = model.merged(records, function, sequence=sequence, levels=levels, keep_deletes=keep_deletes)
    except model.RefusedError:
        with pytest.raises(DataError):
            list(merge_runs(inputs, plan, window))
        return
    actual = []
    for batch in merge_runs(inputs, plan, window):
        assert batch.num_rows <= 3
        for row in batch.to_pylist():
            kind = row.pop(VALUE_KIND) if keep_deletes else 0
            actual.append((kind, row.pop("k"), row))
    assert actual == [(k if keep_deletes else 0, key, row) for k, key, row in expected]


@given(runs(), st.booleans(), st.booleans(), st.booleans(), st.integers(1, 9))
def test_deduplicate_keeps_the_newest(
    data: list[list[Record]], ignore: bool, levels: bool, keep: bool, window: int
) -> None:
    options = {"ignore-delete": str(ignore).lower()}
    check(data, options, model.deduplicate(ignore), levels=levels, keep_deletes=keep, window=window)


@given(runs(), st.booleans(), st.sampled_from([("s",), ("s", "t"), ("t", "s")]))
def test_sequence_fields_come_before_arrival(
    data: list[list[Record]], descending: bool, names: tuple[str, ...]
) -> None:
    fields = tuple(SequenceField(n, descending) for n in names)
    check(data, {}, model.deduplicate(False), sequence=fields)


@given(runs(), st.booleans(), st.booleans())
def test_first_row_keeps_the_oldest(data: list[list[Record]], ignore: bool, keep: bool) -> None:
    options = {"merge-engine": "first-row", "ignore-delete": str(ignore).lower()}
    check(data, options, model.first_row(ignore), keep_deletes=keep)


@given(runs(), st.booleans(), st.booleans(), st.booleans())
def test_the_key_mask_keeps_the_rows_that_the_merge_gives(
    data: list[list[Record]], first: bool, keep: bool, levels: bool
) -> None:
    options = {"merge-engine": "first-row" if first else "deduplicate", "ignore-delete": "true"}
    function = create_merge_function(model.table(COLUMNS, options), parse_table_options(options))
    plan = MergePlan(function, ("k",), (), ("k", *COLUMNS), keep)
    inputs = [b for run in data for b in model.batches(run, ARROW, levels, 100)]
    if not inputs:
        return
    columns = {n: pa.concat_arrays([b.column(n) for b in inputs]) for n in inputs[0].schema.names}
    alive = surviving_rows(columns, plan)
    whole = pa.concat_tables([pa.Table.from_batches([b]) for b in inputs]).filter(pa.array(alive))
    actual = sorted((r[VALUE_KIND], r["k"], r["a"], r["b"]) for r in map(_printable, whole.to_pylist()))
    records = [r for run in data for r in run]
    rule = model.first_row(True) if first else model.deduplicate(True)
    expected = model.merged(records, rule, levels=levels, keep_deletes=keep)
    assert actual == sorted(
        (kind, key, r["a"], r["b"]) for kind, key, r in ((k, key, _printable(r)) for k, key, r in expected)
    )


def _printable(row: dict[str, Any]) -> dict[str, Any]:
    return {n: (v if n in (VALUE_KIND, "k") else repr(v)) for n, v in row.items()}


@given(runs(), st.sampled_from(["refuse", "ignore", "remove"]), st.booleans(), st.booleans())
def test_partial_update_takes_what_is_not_null(
    data: list[list[Record]], deletes: str, levels: bool, keep: bool
) -> None:
    options = {"merge-engine": "partial-update"}
    if deletes == "ignore":
        options["ignore-delete"] = "true"
    if deletes == "remove":
        options["partial-update.remove-record-on-delete"] = "true"
    rule = model.partial_update(ignore_delete=deletes == "ignore", remove_on_delete=deletes == "remove")
    check(data, options, rule, levels=levels, keep_deletes=keep)


@pytest.mark.ci
@settings(max_examples=examples(200))
@given(
    runs(),
    st.sampled_from([{("s",): ("a",), ("t",): ("b",)}, {("s", "t"): ("a", "b")}, {("t", "s"): ("a",)}]),
    st.booleans(),
    st.sampled_from(["keep", "ignore", "remove"]),
    st.booleans(),
)
def test_sequence_groups_replace_together(
    data: list[list[Record]], groups: Any, summed: bool, deletes: str, adds_only: bool
) -> None:
    if adds_only:
        for run in data:
            for r in run:
                r.kind = model.ADD
    options = {"merge-engine": "partial-update"}
    for sequence, protected in groups.items():
        options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(protected)
    removing = frozenset(next(iter(groups))[:1]) if deletes == "remove" else frozenset()
    if deletes == "ignore":
        options["ignore-delete"] = "true"
    if removing:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(removing)
    if summed:
        options["fields.a.aggregate-function"] = "sum"
    check(
        data,
        options,
        model.partial_update(
            groups=groups,
            functions={"a": _add} if summed else {},
            undo={"a": _subtract},
            ignore_delete=deletes == "ignore",
            removing=removing,
        ),
    )


def _add(acc: Any, new: Any) -> Any:
    return new if acc is None else acc if new is None else acc + new


def _subtract(acc: Any, old: Any) -> Any:
    return acc if old is None else -old if acc is None else acc - old


def _refuse(acc: Any, old: Any) -> Any:
    raise model.RefusedError


def _last_non_null(acc: Any, new: Any) -> Any:
    return acc if new is None else new


def _max(acc: Any, new: Any) -> Any:
    return new if acc is None else acc if new is None else max(acc, new)


def _min(acc: Any, new: Any) -> Any:
    return new if acc is None else acc if new is None else min(acc, new)


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "sum": (_add, _subtract),
    "product": (lambda a, b: b if a is None else a if b is None else a * b, _refuse),
    "max": (_max, _refuse),
    "min": (_min, _refuse),
    "last_value": (lambda a, b: b, lambda a, b: None),
    "last_non_null_value": (_last_non_null, lambda a, b: a if b is None else None),
}
TEXT_FUNCTIONS = {
    "max": (_max, _refuse),
    "min": (_min, _refuse),
    "last_value": FUNCTIONS["last_value"],
    "last_non_null_value": FUNCTIONS["last_non_null_value"],
    "listagg": (lambda a, b: a if not b else b if not a else f"{a},{b}", _refuse),
}


@pytest.mark.ci
@settings(max_examples=examples(300))
@given(
    st.booleans().flatmap(lambda deletes: runs(ALL_KINDS if deletes else (0, 2))),
    st.sampled_from(sorted(set(FUNCTIONS) - {"product"})),
    st.sampled_from(sorted(TEXT_FUNCTIONS)),
    st.booleans(),
    st.booleans(),
)
def test_aggregation_folds_each_column(
    data: list[list[Record]], number: str, text: str, remove: bool, levels: bool
) -> None:
    options = {
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": str(remove).lower(),
        "fields.a.aggregate-function": number,
        "fields.b.aggregate-function": text,
        "fields.default-aggregate-function": "last_value",
    }
    chosen = {"a": FUNCTIONS[number], "b": TEXT_FUNCTIONS[text]} | dict.fromkeys(("s", "t"), FUNCTIONS["last_value"])
    rule = model.aggregation({n: f[0] for n, f in chosen.items()}, {n: f[1] for n, f in chosen.items()}, remove)
    check(data, options, rule, levels=levels)


@given(runs((0, 2)))
def test_product_multiplies(data: list[list[Record]]) -> None:
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}
    options["fields.a.aggregate-function"] = "product"
    add = dict.fromkeys(COLUMNS, FUNCTIONS["last_value"][0]) | {"a": FUNCTIONS["product"][0]}
    check(data, options, model.aggregation(add, add, False))


@pytest.mark.parametrize("window", [1, 7, 100000])
def test_one_key_in_every_run_is_merged_whatever_the_window(window: int) -> None:
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
    data = [[Record(1, n, 0, 0, {"a": n}), Record(2 + n % 2, 1000 + n, 0, 0, {"a": 1})] for n in range(150)]
    function = model.aggregation({"a": _add}, {"a": _subtract}, False)
    check(data, options, function, window=window, columns={"a": "INT"}, arrow={"a": pa.int32()})


def test_a_key_that_one_run_repeats_is_still_merged_once() -> None:
    schema = model.table({"a": "INT"}, {})
    plan = MergePlan(create_merge_function(schema, parse_table_options({})), ("k",), (), ("k", "a"), batch_rows=10)
    run = [Record(1, n, 0, 0, {"a": n}) for n in range(50)]
    other = [Record(0, 100, 0, 0, {"a": 7}), Record(5, 101, 0, 0, {"a": 8})]
    inputs = [model.batches(r, {"a": pa.int32()}, False, 3) for r in (run, other)]
    rows = [row for batch in merge_runs(inputs, plan, 2) for row in batch.to_pylist()]
    assert rows == [{"k": 0, "a": 7}, {"k": 1, "a": 49}, {"k": 5, "a": 8}]
