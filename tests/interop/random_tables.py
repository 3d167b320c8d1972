"""Random tables: schema, options and batches drawn from a seed, written by Java."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.interop.table_script import Row, TableScript, Type, array, delete, map_of, row

_WORDS = ["", "a", "b", "word", "a longer text, over fifteen bytes", "日本", "\n", "é" * 9]


def random_script(seed: int, *, brief: bool = False) -> TableScript:
    """The table of this seed, the same on every machine; with at most four batches when `brief`."""
    rng = random.Random(seed)
    return _primary_key(seed, rng, 4 if brief else 8) if rng.random() < 0.7 else _append(seed, rng, 4 if brief else 5)


def _append(seed: int, rng: random.Random, most: int) -> TableScript:
    columns = _columns(rng, rng.randrange(2, 8))
    options = {"file.format": rng.choice(["parquet", "parquet", "orc", "avro"])}
    partition = ["p"] if rng.random() < 0.5 else []
    if rng.random() < 0.5:
        options.update({"bucket": str(rng.randrange(1, 5)), "bucket-key": "id"})
    vectors = rng.random() < 0.4
    if vectors:
        options.update({"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": rng.choice(["true", "false"])})
    fields = [["id", "INT"], ["p", "STRING"], *columns]
    script = TableScript(f"random_append_{seed}", str(options), fields, partition=partition, options=options)
    for step in range(rng.randrange(2, most + 1)):
        script.write([_row(rng, rng.randrange(50), columns) for _ in range(rng.randrange(1, 60))])
        if vectors and rng.random() < 0.7:
            script.delete_rows("id", *rng.sample(range(50), 5))
        if rng.random() < 0.3:
            columns = _evolve(rng, script, columns, step)
        if rng.random() < 0.3:
            script.tag(f"tag-{step}")
        if rng.random() < 0.2:
            script.compact()
    return _filtered(rng, script)


def _primary_key(seed: int, rng: random.Random, most: int) -> TableScript:
    columns = _columns(rng, rng.randrange(1, 7))
    engine = rng.choice(["deduplicate", "deduplicate", "partial-update", "aggregation", "first-row"])
    options = {"merge-engine": engine, "file.format": rng.choice(["parquet", "parquet", "orc", "avro"])}
    partition = ["p"] if rng.random() < 0.4 else []
    keys = [*partition, "id"]
    if partition or rng.random() < 0.5:
        options["bucket"] = rng.choice(["-1", "1", "2", "4"])
    else:
        options["bucket"] = rng.choice(["1", "3"])
    _random_options(rng, options, engine)
    deletes = engine == "deduplicate" or "remove-record-on-delete" in "".join(options)
    not_null = {"p": " NOT NULL"} if partition else {}
    more = _more_keys_and_order(rng, keys, options, engine)
    fields = [["id", "INT NOT NULL"], ["p", "STRING" + not_null.get("p", "")], *more, *columns]
    about = f"{partition} {options}"
    script = TableScript(f"random_pk_{seed}", about, fields, pk=keys, partition=partition, options=options)
    for step in range(rng.randrange(2, most + 1)):
        rows: list[Row] = []
        for _ in range(rng.randrange(1, 50)):
            values = _row(rng, rng.randrange(40), columns, partitioned=bool(partition), more=more)
            rows.append(delete(*values) if deletes and rng.random() < 0.15 else values)
        # The dynamic bucket index is kept by the writer, whether it compacts or not.
        (script.pile if rng.random() < 0.6 else script.write)(rows)
        if rng.random() < 0.25:
            columns = _evolve(rng, script, columns, step)
        if rng.random() < 0.3:
            script.tag(f"tag-{step}")
        if rng.random() < 0.2:
            script.compact(full=rng.random() < 0.7)
    return _filtered(rng, script)


def _more_keys_and_order(rng: random.Random, keys: list[str], options: dict[str, str], engine: str) -> list[list[Any]]:
    """Perhaps a second column of the key, and a column that orders rows: [name, type], and options for them."""
    out = []
    if rng.random() < 0.4:
        out.append(["k", f"{rng.choice(_KEY_TYPES)} NOT NULL"])
        keys.append("k")
    if engine != "first-row" and rng.random() < 0.4:
        out.append(["s", rng.choice(_ORDER_TYPES)])
        options["sequence.field"] = "s"
        if rng.random() < 0.4:
            options["sequence.field.sort-order"] = "descending"
    return out


def _random_options(rng: random.Random, options: dict[str, str], engine: str) -> None:
    if engine == "partial-update" and rng.random() < 0.5:
        options["partial-update.remove-record-on-delete"] = "true"
    if engine == "aggregation":
        options["fields.default-aggregate-function"] = rng.choice(["last_non_null_value", "last_value", "first_value"])
        if rng.random() < 0.5:
            options["aggregation.remove-record-on-delete"] = "true"
    if engine == "first-row":
        options["changelog-producer"] = rng.choice(["none", "lookup"])
        return
    options["changelog-producer"] = rng.choice(["none", "none", "input", "lookup", "full-compaction"])
    if engine == "partial-update" and options["changelog-producer"] == "input":
        options["changelog-producer"] = "none"
    if engine == "aggregation" and options["changelog-producer"] == "input":
        options["changelog-producer"] = "none"
    if options["changelog-producer"] in ("none", "lookup") and rng.random() < 0.3:
        options["deletion-vectors.enabled"] = "true"
    if rng.random() < 0.3:
        options["data-file.thin-mode"] = "true"
    if rng.random() < 0.4:
        options["num-sorted-run.compaction-trigger"] = str(rng.randrange(2, 5))
    if rng.random() < 0.2:
        options["file.format.per.level"] = "0:avro,5:orc"
    if rng.random() < 0.2:
        options["metadata.stats-mode"] = rng.choice(["none", "counts", "full"])


_KEY_TYPES = ["BIGINT", "STRING", "DECIMAL(38, 3)", "TIMESTAMP(6)", "DATE", "TINYINT", "TIME(3)", "DOUBLE"]
_ORDER_TYPES = ["INT", "BIGINT", "STRING", "DECIMAL(9, 3)", "DECIMAL(38, 3)", "TIMESTAMP(6)", "DATE", "DOUBLE"]
_TYPES: list[Type] = [
    "TINYINT",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "INT",
    "BIGINT",
    "SMALLINT",
    "DOUBLE",
    "FLOAT",
    "STRING",
    "BOOLEAN",
    "DATE",
    "DECIMAL(9, 3)",
    "DECIMAL(30, 5)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "BYTES",
    "VARCHAR(12)",
    array("INT"),
    array("STRING"),
    map_of("STRING", "BIGINT"),
    row(("x", "INT"), ("y", "STRING")),
    array(row(("x", "INT"), ("y", "DATE"))),
]


def _columns(rng: random.Random, count: int) -> list[list[Any]]:
    return [[f"c{i}", rng.choice(_TYPES)] for i in range(count)]


def _evolve(rng: random.Random, script: TableScript, columns: list[list[Any]], step: int) -> list[list[Any]]:
    """Add a column at the end, and rename or widen one."""
    added = [f"n{step}", rng.choice(_TYPES)]
    changes: list[dict[str, Any]] = [{"do": "add", "name": added[0], "type": added[1]}]
    changed = [list(column) for column in columns]
    chosen = rng.randrange(len(changed))
    name, type_ = changed[chosen]
    wider = {"INT": "BIGINT", "SMALLINT": "INT", "FLOAT": "DOUBLE"}.get(type_) if isinstance(type_, str) else None
    if wider is not None:
        changes.append({"do": "retype", "name": name, "type": wider})
        changed[chosen][1] = wider
    else:
        changes.append({"do": "rename", "name": name, "to": f"{name}r{step}"})
        changed[chosen][0] = f"{name}r{step}"
    script.alter(*changes)
    return [*changed, added]


def _filtered(rng: random.Random, script: TableScript) -> TableScript:
    low = rng.randrange(40)
    script.where(f"id >= {low} AND id < {low + 9}", ["and", [">=", "id", low], ["<", "id", low + 9]])
    script.where(f"id = {low}", ["=", "id", low]).where("p = 'x'", ["=", "p", "x"])
    return script


def _row(
    rng: random.Random, key: int, columns: list[list[Any]], *, partitioned: bool = False, more: Sequence[list[Any]] = ()
) -> list[Any]:
    # A partition that follows from the key keeps every key in one partition.
    # (No slash in it: Java's lookup files are named after the partition.)
    place = ["x", "y y", "z=%"][key % 3] if partitioned else rng.choice(["x", "y y", "z=/", None])
    extra = [_scalar(rng, t.split(" NOT")[0]) if "NOT NULL" in t else _value(rng, t) for _, t in more]
    return [key, place, *extra, *[_value(rng, type_) for _, type_ in columns]]


def _value(rng: random.Random, type_: Type, depth: int = 0) -> Any:
    if rng.random() < (0.25 if depth == 0 else 0.15):
        return None
    if isinstance(type_, dict):
        kind = type_["type"]
        if kind == "ARRAY":
            return [_value(rng, type_["element"], depth + 1) for _ in range(rng.randrange(4))]
        if kind == "MAP":
            keys = rng.sample(_WORDS, rng.randrange(4))
            return [[key, _value(rng, type_["value"], depth + 1)] for key in keys]
        return [_value(rng, field["type"], depth + 1) for field in type_["fields"]]
    return _scalar(rng, type_)


def _scalar(rng: random.Random, type_: str) -> Any:
    bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
    if type_ in bits:
        small = rng.random() < 0.7
        return rng.randrange(-9, 10) if small else rng.choice([2 ** bits[type_] - 1, -(2 ** bits[type_])])
    if type_ in ("DOUBLE", "FLOAT"):
        return rng.choice([0.5, -1.25, 0.0, 1024.0, "NaN", "Infinity", "-Infinity"])
    if type_.startswith("DECIMAL"):
        return f"{rng.randrange(-99999, 99999)}.{rng.randrange(1000):03d}"
    if type_ == "BOOLEAN":
        return rng.random() < 0.5
    if type_ == "DATE":
        return f"{rng.randrange(1900, 2100)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
    if type_.startswith("TIMESTAMP"):
        zone = "Z" if "ZONE" in type_ else ""
        digits = int(type_[type_.index("(") + 1])
        fraction = f".{rng.randrange(10**digits):0{digits}d}" if digits else ""
        return f"{rng.randrange(1970, 2100)}-03-04T05:06:07{fraction}{zone}"
    if type_.startswith("TIME("):
        return f"{rng.randrange(24):02d}:05:06.{rng.randrange(1000):03d}"
    if type_ == "BYTES":
        return rng.randbytes(rng.randrange(12)).hex()
    word = rng.choice(_WORDS)
    return word[:12] if type_.startswith("VARCHAR") else word
