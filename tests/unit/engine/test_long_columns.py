"""Columns of more bytes than one array holds: every path gives the rows that it gives of short ones.

The limits are a few hundred bytes here, and joining beyond the harder one fails as it does in Arrow at two gigabytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction import sorting
from paimon_spark.engine.merge import sorted_merge
from paimon_spark.engine.row_diff import versions
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.engine.write import router
from paimon_spark.format.arrays import pieces
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import VALUE_KIND

COLUMNS = "k STRING, n INT, s STRING, b BYTES, l ARRAY<STRING>, m MAP<STRING, STRING>, r ROW<x STRING, y INT>"
ROW = pa.struct([("x", pa.string()), ("y", pa.int32())])
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("l", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.string())),
        ("r", ROW),
    ]
)
LIMIT = 1000
"""Stands for the two gigabytes: more bytes or elements are never joined."""
METADATA = ("paimon_spark.engine.scan", "paimon_spark.engine.commit", "paimon_spark.metadata")
"""Modules that join columns of manifests."""
KEYS = 30
_CONCAT = pa.concat_arrays
Rows = list[dict[str, Any]]


def _refusing(arrays: list[pa.Array], *args: Any) -> pa.Array:
    of_files = sys._getframe(1).f_globals["__name__"].startswith(METADATA)
    if not of_files and pieces.wide_type(arrays[0].type) != arrays[0].type and sum(map(pieces._reach, arrays)) > LIMIT:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")
    return _CONCAT(arrays, *args)


@contextlib.contextmanager
def short_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "ARRAY_BYTES", LIMIT // 2)
        patch.setattr(pieces, "BATCH_BYTES", LIMIT // 2)
        patch.setattr(sorted_merge, "WINDOW_BYTES", LIMIT)
        patch.setattr(sorted_merge, "MOST_OPEN", 2)
        patch.setattr(sorting, "SAMPLE_BYTES", LIMIT)
        patch.setattr(sorting, "_DEALT_BYTES", LIMIT)
        patch.setattr(versions, "PART_BYTES", 4 * LIMIT)
        patch.setattr(router, "_GATHERED_BYTES", 4 * LIMIT)
        patch.setattr(router, "_HANDED_BYTES", 4 * LIMIT)
        patch.setattr(pa, "concat_arrays", _refusing)
        yield


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


def some_rows(seed: int, count: int = KEYS, keys: int = KEYS) -> Rows:
    choose = random.Random(seed)

    def text() -> str:
        return "".join(choose.choices("abcdé", k=choose.randint(0, 30)))

    return [
        {
            "k": f"{k:02}" + "k" * 70,
            "n": choose.randint(0, 5),
            "s": choose.choice([None, text()]),
            "b": text().encode(),
            "l": choose.choice([None, [text() for _ in range(choose.randint(0, 3))]]),
            "m": [(f"m{i}", text()) for i in range(choose.randint(0, 3))],
            "r": choose.choice([None, {"x": text(), "y": choose.randint(0, 5)}]),
        }
        for k in choose.sample(range(keys), count)
    ]


def a_table(rows: Rows, kinds: list[int] | None = None) -> pa.Table:
    table = pa.Table.from_pylist(rows, SCHEMA)
    return table if kinds is None else table.append_column(VALUE_KIND, pa.array(kinds, pa.int8()))


def sorted_rows(table: pa.Table) -> Rows:
    return sorted(table.to_pylist(), key=repr)


def with_both(catalog: Catalog, run: Callable[[str], Any]) -> Any:
    """What `run` returns, given the name of a table to make; the same with short limits."""
    want = run("d.usual")
    with short_limits():
        got = run("d.short")
    assert got == want
    return want


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate by a sequence field": {"sequence.field": "n"},
    "ignore-delete": {"ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "none"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "sequence groups": {"merge-engine": "partial-update", "fields.n.sequence-group": "s,b,l"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "listagg",
        "fields.b.aggregate-function": "max",
        "fields.l.aggregate-function": "collect",
        "fields.m.aggregate-function": "merge_map",
        "fields.n.aggregate-function": "sum",
    },
    "aggregation value by value": {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "listagg",
        "fields.s.distinct": "true",
        "fields.l.aggregate-function": "collect",
        "fields.l.distinct": "true",
        "fields.r.aggregate-function": "last_non_null_value",
    },
}
PRODUCERS = ("input", "lookup", "full-compaction")
DELETES = ("deduplicate", "deduplicate by a sequence field", "sequence groups")


def history(table: Table, engine: str, commits: int = 4) -> None:
    for seed in range(commits):
        kinds = [0] * KEYS
        if engine in DELETES and seed:
            kinds = [3 if place % 9 == seed else 0 for place in range(KEYS)]
        table.write(a_table(some_rows(seed), kinds))


@pytest.mark.parametrize(
    ("engine", "producer"),
    [
        *((engine, "none") for engine in ENGINES),
        *(("deduplicate", producer) for producer in PRODUCERS),
        *(pytest.param("aggregation", producer, marks=pytest.mark.ci) for producer in PRODUCERS),
        *(pytest.param("partial-update", producer, marks=pytest.mark.ci) for producer in PRODUCERS),
    ],
)
def test_keys_are_merged(catalog: Catalog, engine: str, producer: str) -> None:
    options = {"bucket": "1", "write-only": "true", "changelog-producer": producer, **ENGINES[engine]}

    def run(name: str) -> Any:
        table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options=options)
        history(table, engine)
        found = [] if engine == "first-row" else sorted_rows(table.scan().to_arrow())
        some = sorted_rows(table.scan(where="s >= 'b' OR l IS NULL").to_arrow())
        table.compact(full=True)
        merged = sorted_rows(table.scan().to_arrow())
        assert found in ([], merged)
        history(table, engine, 2)
        table.compact(full=True)
        log = []
        if producer != "none":
            log = sorted_rows(table.scan(**{"incremental-between": f"0,{table.snapshots()[-1].id}"}).to_arrow())
        return merged, some, log, sorted_rows(table.scan().to_arrow())

    merged, _, log, _ = with_both(catalog, run)
    assert len(merged) > KEYS // 2
    assert bool(log) == (producer != "none")


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize("spillable", ["true", "false"])
def test_a_write_is_sorted_and_spilled(catalog: Catalog, engine: str, spillable: str) -> None:
    options = {"bucket": "1", "write-only": "true", "write-buffer-size": "2 kb", **ENGINES[engine]}
    options["write-buffer-spillable"] = spillable
    rows = [row for seed in range(6) for row in some_rows(seed)]

    def run(name: str) -> Any:
        table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options=options)
        table.write(a_table(rows))
        return sorted_rows(table.scan().to_arrow())

    assert len(with_both(catalog, run)) == KEYS


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", ["append", "buckets", "keys"])
def test_one_long_batch_is_written_in_each_format(catalog: Catalog, file_format: str, kind: str) -> None:
    rows = [{**row, "k": f"{seed}{row['k']}"} for seed in range(4) for row in some_rows(seed)]
    keys = {"primary_keys": ["k"]} if kind == "keys" else {}
    options = {"file.format": file_format, "bucket": "-1" if kind == "append" else "3"}
    if kind == "buckets":
        options["bucket-key"] = "k"
    with short_limits():
        table = catalog.create_table("d.t", COLUMNS, options=options, **keys)  # type: ignore[arg-type]
        table.write(a_table(rows).combine_chunks())
        assert sorted_rows(table.scan().to_arrow()) == sorted_rows(a_table(rows))
        found = table.scan(["k", "s"], where="n = 3 AND s IS NOT NULL").to_arrow().to_pylist()
    want = [{"k": r["k"], "s": r["s"]} for r in rows if r["n"] == 3 and r["s"] is not None]
    assert sorted(found, key=repr) == sorted(want, key=repr)


def test_input_in_other_types_is_cut_before_it_is_converted(catalog: Catalog) -> None:
    texts = [f"{n}" * 40 for n in range(100)] * 4
    given = {
        "s": pa.array(texts).dictionary_encode(),
        "t": pa.array(texts, pa.large_string()),
        "u": pa.array(texts, pa.string_view()),
        "l": pa.array([[t, None] for t in texts], pa.large_list(pa.large_string())),
    }
    with short_limits():
        table = catalog.create_table("d.t", "s STRING, t STRING, u STRING, l ARRAY<STRING>")
        table.write(pa.table(given))
        found = table.scan().to_arrow().to_pylist()
    assert found == [{"s": t, "t": t, "u": t, "l": [t, None]} for t in texts]


def test_long_defaults_are_filled_in(catalog: Catalog) -> None:
    with short_limits():
        table = catalog.create_table("d.t", f"n INT, s STRING DEFAULT '{'long ' * 90}'")
        table.write(pa.table({"n": list(range(30))}))
        assert table.scan().to_arrow().to_pylist() == [{"n": n, "s": "long " * 90} for n in range(30)]


APPEND: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "buckets": {"bucket": "2", "bucket-key": "k"},
    "evolution": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    "indexes": {"file-index.bitmap.columns": "s", "file-index.range-bitmap.columns": "k"},
}


@pytest.mark.parametrize("kind", APPEND)
def test_append_tables_are_compacted(catalog: Catalog, kind: str) -> None:
    rows = [row for seed in range(4) for row in some_rows(seed)]
    with short_limits():
        table = catalog.create_table("d.t", COLUMNS, options=APPEND[kind])
        for seed in range(4):
            table.write(a_table(some_rows(seed)))
        if kind == "vectors":
            table.delete("n = 2")
            rows = [row for row in rows if row["n"] != 2]
        done = table.compact(full=True)
        assert done.files_after < done.files_before
        assert sorted_rows(table.scan().to_arrow()) == sorted_rows(a_table(rows))
        some = table.scan(["n"], where=f"s = '{rows[5]['s']}'").to_arrow()
    assert len(some) == sum(row["s"] == rows[5]["s"] for row in rows)


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
@pytest.mark.parametrize("clusters", [True, False])
def test_rows_are_sorted(catalog: Catalog, strategy: str, clusters: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "RANGE_BYTES", 6000)
    rows = [row for seed in range(4) for row in some_rows(seed)]
    options = {}
    if clusters:
        options = {"clustering.incremental": "true", "clustering.columns": "s,k", "clustering.strategy": strategy}
    with short_limits():
        table = catalog.create_table("d.t", COLUMNS, options=options)
        for seed in range(4):
            table.write(a_table(some_rows(seed)))
        table.compact(full=True, **({} if clusters else {"order_by": "s,k", "order_strategy": strategy}))
        found = table.scan().to_arrow().to_pylist()
    assert sorted(found, key=repr) == sorted_rows(a_table(rows))
    assert found != a_table(rows).to_pylist()
    if strategy == "order":
        keys = [(row["s"] is not None, (row["s"] or "").encode(), row["k"]) for row in found]
        assert keys == sorted(keys)


@pytest.mark.parametrize("keys", [["k"], []])
def test_rows_of_versions_are_compared(catalog: Catalog, keys: list[str]) -> None:
    options = {"bucket": "1", "write-only": "true"} if keys else {}

    def run(name: str) -> Any:
        table = catalog.create_table(name, COLUMNS, primary_keys=keys, options=options)
        table.write(a_table(some_rows(0, 20)))
        table.write(a_table(some_rows(1, 20)))
        if not keys:
            table.delete("n = 1")
        found = table.diff(1, table.snapshots()[-1].id, rows=True)
        counts = (found.added, found.removed, found.changed, dict(found.columns))
        assert len(found.samples) > 0
        return counts, sorted_rows(found.to_arrow())

    with_both(catalog, run)


@pytest.mark.parametrize("on_conflict", ["ours", "theirs", "newest"])
def test_keys_of_a_branch_are_rebased(catalog: Catalog, on_conflict: Any) -> None:
    def run(name: str) -> Any:
        options = {"bucket": "1", "write-only": "true", "sequence.field": "n"} if on_conflict == "newest" else {}
        table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})
        table.write(a_table(some_rows(0, 20)))
        table.create_branch("fix")
        fix = table.branch("fix")
        table.write(a_table(some_rows(1, 20)))
        fix.write(a_table(some_rows(2, 20)))
        done = table.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict)
        return done.rebased_rows, done.kept_conflicts, sorted_rows(table.scan().to_arrow())

    rebased, _, _ = with_both(catalog, run)
    assert rebased


def test_appended_rows_of_a_branch_are_rebased(catalog: Catalog) -> None:
    def run(name: str) -> Any:
        table = catalog.create_table(name, COLUMNS)
        table.write(a_table(some_rows(0)))
        table.create_branch("fix")
        table.branch("fix").write(a_table(some_rows(1)))
        table.branch("fix").delete("n = 2")
        table.write(a_table(some_rows(2)))
        with contextlib.suppress(paimon_spark.errors.PaimonError):
            table.merge_branch("fix", if_main_moved="rebase")
        return sorted_rows(table.scan().to_arrow())

    with_both(catalog, run)


@pytest.mark.parametrize("kind", ["plain", "vectors", "evolution", "keys"])
def test_rows_are_changed_and_deleted(catalog: Catalog, kind: str) -> None:
    options = {"bucket": "1"} if kind == "keys" else APPEND[kind]

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        place = batch.schema.get_field_index("s")
        texts = pa.array(["new " * 50] * batch.num_rows, pa.string())
        return batch.set_column(place, batch.schema.field(place), texts)

    with short_limits():
        table = catalog.create_table("d.t", COLUMNS, primary_keys=["k"] if kind == "keys" else [], options=options)
        table.write(a_table(some_rows(0)))
        if kind != "evolution":
            table.delete("n = 1")
        handle = table.handle
        job = plan_rows(handle, parse_predicate("n >= 2", handle.schema.row_type), updates=True)
        Committer(handle, "tests").commit(in_process(job, change))
        found = sorted_rows(table.scan().to_arrow())
    want = [row if row["n"] < 2 else {**row, "s": "new " * 50} for row in some_rows(0)]
    want = [row for row in want if kind == "evolution" or row["n"] != 1]
    assert found == sorted_rows(a_table(want))


REAL_KEYS = 2_200
REAL_BYTES = 1_000_000


def real_batches(keys: range) -> Iterator[pa.RecordBatch]:
    """Rows of a megabyte each, which compress well."""
    bodies = [random.Random(n).randbytes(8_192).hex() * (REAL_BYTES // 16_384 + 1) for n in range(5)]
    for start in range(keys.start, keys.stop, 50):
        some = range(start, min(start + 50, keys.stop))
        texts = [f"{k:08} of {keys.start:08}" + bodies[k % 5][: REAL_BYTES - 20] for k in some]
        yield pa.RecordBatch.from_arrays([pa.array(some, pa.int64()), pa.array(texts)], names=["k", "s"])


def digests(batches: Iterator[pa.RecordBatch]) -> dict[int, tuple[int, str]]:
    """Length and hash of the text by key."""
    return {
        k: (len(s), hashlib.md5(s.encode(), usedforsecurity=False).hexdigest())
        for batch in batches
        for k, s in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    }


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", ["keys", "append"])
def test_two_gigabytes_of_text_in_a_bucket(catalog: Catalog, kind: str) -> None:
    keys = {"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true"}} if kind == "keys" else {}
    table = catalog.create_table("d.t", "k BIGINT, s STRING", **keys)  # type: ignore[arg-type]
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    parts = [range(700), range(500, 1200), range(1000, 1700), range(1500, REAL_KEYS)]
    if kind == "append":
        parts = [range(part.start, end) for part, end in zip(parts, [500, 1000, 1500, REAL_KEYS], strict=True)]
    want: dict[int, tuple[int, str]] = {}
    for part in parts:
        table.write(pa.RecordBatchReader.from_batches(schema, real_batches(part)))
        want |= digests(real_batches(part))
    assert digests(iter(table.scan().to_batches())) == want
    before = {f for split in table.scan().plan().splits for f in split.files}
    done = table.compact(full=True)
    assert done.files_before == len(before) and done.files_after < done.files_before
    assert digests(iter(table.scan().to_batches())) == want
    found = table.diff(1, table.snapshots()[-1].id, rows=True)
    first = len(parts[0])
    changed = first - parts[1].start if kind == "keys" else 0
    assert (found.added, found.removed, found.changed) == (REAL_KEYS - first, 0, changed)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_two_gigabytes_of_text_in_one_table(catalog: Catalog, file_format: str) -> None:
    given = pa.Table.from_batches(real_batches(range(REAL_KEYS)))
    table = catalog.create_table("d.t", "k BIGINT, s STRING", options={"file.format": file_format})
    table.write(given)
    assert digests(iter(table.scan().to_batches())) == digests(iter(given.to_batches()))
