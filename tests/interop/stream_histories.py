"""Lives of tables that streams follow: every changelog producer and merge engine, and what befalls a branch meanwhile.

Each is a `TableScript`, the same in every run; its dice are seeded by its name.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tests.interop.table_script import Row, TableScript, delete, update_after, update_before

T = TableScript
FIELDS: Final = [["k", "INT NOT NULL"], ["p", "STRING NOT NULL"], ["v", "INT"], ["s", "STRING"]]
KEYS: Final = 12
LOGGED: Final = {"bucket": "1", "changelog-producer": "input"}

ENGINES: Final[dict[str, dict[str, str]]] = {
    "deduplicate": {},
    "partial_update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first_row": {"merge-engine": "first-row", "ignore-delete": "true"},
}
PRODUCERS: Final[dict[str, dict[str, str]]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full_compaction": {"changelog-producer": "full-compaction"},
}
_NO_SUCH: Final = {
    ("partial_update", "input"),
    ("sum", "input"),
    ("first_row", "input"),
    ("first_row", "full_compaction"),
}


def scripts() -> list[TableScript]:
    """All lives."""
    return [*_engines_and_producers(), *_layouts(), *_append(), *_pasts()]


def _rows(dice: random.Random, *, deletes: bool, kinds: bool = False, wander: bool = False) -> list[Row]:
    """Some rows of some keys; a key lies in one partition unless it may wander."""
    rows: list[Row] = []
    for k in dice.sample(range(KEYS), dice.randint(2, 8)):
        place = dice.choice("xy") if wander else "xy"[k % 2]
        values = [k, place, dice.choice([None, 1, 2, 3]), dice.choice([None, "a", "b"])]
        if kinds and dice.random() < 0.3:
            rows += [update_before(*values), update_after(k, place, dice.randint(5, 9), "changed")]
        else:
            rows.append(delete(*values) if deletes and dice.random() < 0.25 else values)
    return rows


def _live(script: TableScript, *, deletes: bool = True, kinds: bool = False, wander: bool = False) -> TableScript:
    """Writes that compact and writes that do not, compactions, overwrites, in an order of its own."""
    dice = random.Random(script.name)

    def rows() -> list[Row]:
        return _rows(dice, deletes=deletes, kinds=kinds, wander=wander)

    script.write(rows()).pile(rows()).pile(rows())
    script.compact(full=dice.random() < 0.5)
    script.write(rows(), watermark=1000)
    if not wander:
        static = dice.random() < 0.5 and "no_partitions" not in script.name
        script.overwrite({"p": "x"} if static else {}, [[2, "x", 7, "over"], [4, "x", None, None]])
    script.pile(rows(), watermark=2000).compact().write(rows(), watermark=3000)
    return script


def _engines_and_producers() -> list[TableScript]:
    result = []
    for engine, merges in ENGINES.items():
        for producer, produces in PRODUCERS.items():
            if (engine, producer) in _NO_SUCH:
                continue
            options = {"bucket": "2", **merges, **produces}
            name = f"stream_{engine}_{producer}"
            script = T(name, "", FIELDS, pk=["k", "p"], partition=["p"], options=options)
            deletes = engine in ("deduplicate", "partial_update")
            result.append(_live(script, deletes=deletes, kinds=producer == "input" or engine == "deduplicate"))
    return result


def _keyed(name: str, about: str, options: dict[str, str], **more: Any) -> TableScript:
    pk = more.pop("pk", ["k", "p"])
    return T(f"stream_{name}", about, FIELDS, pk=pk, partition=more.pop("partition", ["p"]), options=options, **more)


def _layouts() -> list[TableScript]:
    """Buckets, deletion vectors and orders of other kinds."""
    lookup = {"changelog-producer": "lookup"}
    vectors = {"deletion-vectors.enabled": "true"}
    return [
        _live(_keyed("vectors", "deletion vectors, no changelog", {"bucket": "1", **vectors})),
        _live(_keyed("vectors_lookup", "deletion vectors and lookup", {"bucket": "1", **vectors, **lookup})),
        _live(_keyed("dynamic", "dynamic buckets", {"bucket": "-1", "dynamic-bucket.target-row-num": "3"})),
        _live(_keyed("dynamic_input", "dynamic buckets, changelogs", {"bucket": "-1", "changelog-producer": "input"})),
        _live(_keyed("wandering", "keys move between partitions", {"bucket": "-1", **lookup}, pk=["k"]), wander=True),
        _live(
            _keyed(
                "postponed", "buckets are decided by compaction", {"bucket": "-2", "postpone.default-bucket-num": "2"}
            )
        ),
        _live(
            _keyed(
                "postponed_lookup",
                "the same with changelogs",
                {"bucket": "-2", "postpone.default-bucket-num": "2", **lookup},
            )
        ),
        _live(_keyed("read_overwrites", "overwrites are changes", {"bucket": "2", "streaming-read-overwrite": "true"})),
        _live(
            _keyed(
                "read_overwrites_input",
                "beside changelogs",
                {
                    "bucket": "1",
                    "changelog-producer": "input",
                    "streaming-read-overwrite": "true",
                },
            )
        ),
        _live(
            _keyed(
                "row_deduplicate",
                "no change without a difference",
                {
                    "bucket": "1",
                    **lookup,
                    "changelog-producer.row-deduplicate": "true",
                    "sequence.field": "v",
                },
            )
        ),
        _live(
            _keyed(
                "avro_changelogs",
                "changelog files of their own format",
                {
                    "bucket": "1",
                    "changelog-producer": "input",
                    "changelog-file.format": "avro",
                    "changelog-file.prefix": "log-",
                },
            )
        ),
        _live(T("stream_no_partitions", "", FIELDS, pk=["k"], options={"bucket": "3", **lookup})),
    ]


def _append() -> list[TableScript]:
    plain = T("stream_append", "no buckets, no partitions", FIELDS)
    parts = T("stream_append_partitions", "partitions, overwritten", FIELDS, partition=["p"])
    overs = T("stream_append_overwrites", "rows of overwrites are read", FIELDS, partition=["p"], options={
        "streaming-read-append-overwrite": "true",
    })  # fmt: skip
    buckets = T("stream_append_buckets", "", FIELDS, options={"bucket": "3", "bucket-key": "k"})
    vectors = T("stream_append_vectors", "deletes by deletion vectors", FIELDS, partition=["p"], options={
        "deletion-vectors.enabled": "true",
    })  # fmt: skip
    for script in (plain, parts, overs, buckets, vectors):
        dice = random.Random(script.name)
        script.write(_rows(dice, deletes=False)).write(_rows(dice, deletes=False), watermark=1000)
        if script is vectors:
            script.delete_rows("k", 1, 2, 3)
        script.compact().write(_rows(dice, deletes=False), watermark=2000)
        if script in (parts, overs, vectors):
            script.overwrite({"p": "x"}, [[2, "x", 7, "over"]]).overwrite({}, [[3, "y", 7, "over"]])
        if script is vectors:
            script.delete_rows("k", 4, 5)
        script.write(_rows(dice, deletes=False), watermark=3000).step("truncate").write(_rows(dice, deletes=False))
    return [plain, parts, overs, buckets, vectors]


def _pasts() -> list[TableScript]:
    """Snapshots that expire, changelogs that outlive them, schemas that change, commits that hold no rows."""
    few = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    longer = {**few, "changelog.num-retained.min": "4", "changelog.num-retained.max": "20"}
    result = []
    for name, options in {
        "expiring": {"bucket": "1", **few},
        "expiring_append": few,
        "long_lived": {**LOGGED, **longer},
        "long_lived_lookup": {**longer, "bucket": "1", "changelog-producer": "lookup"},
        "long_lived_none": {"bucket": "1", **longer},
        "long_lived_append": longer,
    }.items():
        script = T(f"stream_{name}", "", FIELDS, pk=[] if "append" in name else ["k"], options=options)
        dice = random.Random(name)
        for _ in range(7):
            script.write(_rows(dice, deletes=not name.endswith("append")))
        result.append(script)
    return [*result, *_evolved(), _quiet(), _rescaled()]


def _evolved() -> list[TableScript]:
    result = []
    for name, options, pk in (
        ("keyed", {"bucket": "1"}, ["k"]),
        ("lookup", {"bucket": "1", "changelog-producer": "lookup"}, ["k"]),
        ("append", {}, []),
    ):
        script = T(
            f"stream_evolved_{name}", "columns come, move and are called otherwise", FIELDS, pk=pk, options=options
        )
        script.write([[1, "x", 1, "a"], [2, "y", 2, "b"]])
        script.alter({"do": "add", "name": "n", "type": "BIGINT"})
        script.write([[1, "x", 3, "c", 10], [3, "x", None, None, None]])
        script.alter(
            {"do": "rename", "name": "s", "to": "t"},
            {"do": "add", "name": "first", "type": "STRING", "first": True},
            {"do": "move", "name": "v", "first": True},
        )
        script.write([[7, "f", 2, "x", "d", 20], [8, None, 4, "z", None, 40]])
        script.alter({"do": "set", "name": "file.format", "value": "avro"}).write([[9, "g", 2, "x", "e", 21]])
        script.compact().write([[9, "h", 5, "x", "e", 21]])
        result.append(script)
    return result


def _quiet() -> TableScript:
    script = T("stream_quiet", "most commits change nothing", FIELDS, pk=["k"], options={"bucket": "1"})
    script.write([], ignoreEmpty=False).write([[1, "x", 1, "a"]]).step("analyze", records=1)
    script.step("compactManifests").compact().write([], ignoreEmpty=False, watermark=500)
    script.step("truncate").tag("empty").write([[2, "x", 1, "b"]], user="job", identifier=1)
    script.write([[3, "x", 1, "c"]], user="job", identifier=2)
    return script


def _rescaled() -> TableScript:
    script = T("stream_rescaled", "buckets are counted anew", FIELDS, pk=["k"], options={**LOGGED, "bucket": "1"})
    dice = random.Random(script.name)
    script.write(_rows(dice, deletes=True)).write(_rows(dice, deletes=True))
    script.alter({"do": "set", "name": "bucket", "value": "3"})
    script.overwrite({}, _rows(dice, deletes=False)).write(_rows(dice, deletes=True))
    return script.compact().write(_rows(dice, deletes=True))
