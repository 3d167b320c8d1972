"""Java Paimon's system tables beside ours, of every kind of table that Java writes: same columns, same rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import PaimonError, UnsupportedFeatureError
from paimon_spark.types import BinaryType, RowType
from tests.harness.rows import difference, row_line, rows_of
from tests.interop import tables_append, tables_history, tables_merge_engines, tables_primary_key, tables_types
from tests.interop.java_paimon import JavaPaimon
from tests.interop.java_tables import JavaTables
from tests.interop.table_script import Read, TableScript

pytestmark = pytest.mark.interop

SCRIPTS = [
    *tables_append.scripts(),
    *tables_primary_key.scripts(),
    *tables_merge_engines.scripts(),
    *tables_types.scripts(),
    *tables_history.scripts(),
]
OF_BRANCHES = ("snapshots", "schemas", "options", "tags", "branches", "consumers", "aggregation_fields")
OF_VERSIONS = (
    "files", "file_key_ranges", "manifests", "partitions", "buckets", "statistics", "table_indexes", "audit_log",
    "binlog", "ro", "row_tracking",
)  # fmt: skip
NOT_TRAVELLED_BY_JAVA = ("buckets",)
"""Java reads these of the head whatever version is asked for."""
LISTED_FROM_A_WRONG_HINT = ("branch_fast_forwarded_back_keyed", "branch_fast_forwarded_back_append")
"""Java's fast-forward gives main the EARLIEST hint of the branch, and then lists no snapshot before it."""
Row = dict[str, Any]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_system_tables_are_as_java_has_them(script: TableScript, java: JavaPaimon, java_tables: JavaTables) -> None:
    table = java_tables.get(script)
    asked = [(name, label) for label in _labels(table.versions) for name in _names(label)]
    calls = [{"op": "read", "path": table.path, "system": name, **_java_options(label)} for name, label in asked]
    problems = {}
    for (name, label), theirs in zip(asked, java.run(calls), strict=True):
        found = _difference(table.path, name, label, theirs, script)
        if found is not None:
            problems[f"${name} {label}"] = found
    assert not problems, "\n\n".join([table.path, *(f"{k}: {v}" for k, v in problems.items())])


CHANGES = [
    (script, read, name)
    for script in SCRIPTS
    for read in script.reads
    if read.reads_changes
    for name in ("audit_log", "binlog")
    # The script writes a -U without its +U, which Java packs with a row of another file.
    if (script.name, name) != ("pk_deduplicate", "binlog")
]


@pytest.mark.parametrize(("script", "read", "name"), CHANGES, ids=[f"{s}-{r.label}-{n}" for s, r, n in CHANGES])
def test_changes_are_as_java_has_them(
    script: TableScript, read: Read, name: str, java: JavaPaimon, java_tables: JavaTables
) -> None:
    path = java_tables.get(script).path
    branch = {} if read.branch is None else {"branch": read.branch}
    call = {"op": "read", "path": path, "system": name, "options": read.options, **branch}
    if read.columns is not None:
        call["columns"] = read.columns
    [theirs] = java.run([call])
    suffix = "" if read.branch is None else f"$branch_{read.branch}"
    try:
        scan = paimon_spark.load_table(f"{path}{suffix}${name}", **read.options).scan(columns=read.columns)
        rows = rows_of(scan.to_arrow(), {f.name: str(f.type) for f in scan.row_type})
    except PaimonError as error:
        if "error" not in theirs:
            raise AssertionError("Java reads it") from error
        return
    if "error" not in theirs:
        unordered = script.unordered if name == "audit_log" else ()
        found = difference(theirs["rows"], rows, unordered)
        assert found is None, f"{path} {read.options}: {found}"


def _labels(versions: dict[str, Any]) -> list[str]:
    """The head of main, of every branch, and a few tags and snapshots."""
    heads = [v for v in versions if v == "latest" or re.fullmatch(r"branch=[^,]+(,latest)?", v)]
    versioned = [v for v in versions if ("tag=" in v or "snapshot=" in v) and "branch=" not in v]
    return [*heads, *versioned[:3]]


def _names(label: str) -> tuple[str, ...]:
    if "tag=" in label or "snapshot=" in label:
        return tuple(n for n in OF_VERSIONS if n not in NOT_TRAVELLED_BY_JAVA)
    return (*OF_BRANCHES, *OF_VERSIONS)


def _parts(label: str) -> tuple[str | None, dict[str, str]]:
    branch, rest = None, label
    if rest.startswith("branch="):
        branch, _, rest = rest.removeprefix("branch=").partition(",")
    if not rest or rest == "latest":
        return branch, {}
    word, value = rest.split("=", 1)
    return branch, {{"snapshot": "scan.snapshot-id", "tag": "scan.tag-name"}[word]: value}


def _java_options(label: str) -> dict[str, Any]:
    branch, options = _parts(label)
    return {"options": options, **({} if branch is None else {"branch": branch})}


def _difference(path: str, name: str, label: str, theirs: dict[str, Any], script: TableScript) -> str | None:
    branch, options = _parts(label)
    suffix = "" if branch is None else f"$branch_{branch}"
    try:
        scan = paimon_spark.load_table(f"{path}{suffix}${name}", **{"time-zone": "UTC", **options}).scan()
        rows = rows_of(scan.to_arrow(), {f.name: str(f.type) for f in scan.row_type})
    except UnsupportedFeatureError as error:
        allowed = script.may_refuse is not None and script.may_refuse.lower() in str(error).lower()
        return None if allowed or "error" in theirs else f"refused: {error}"
    except PaimonError as error:
        return None if "error" in theirs else f"{type(error).__name__}: {error}"
    if "error" in theirs:
        return None
    count = len(theirs["schema"])
    if _columns(scan.row_type)[:count] != [[c[1], c[2].replace("`", "")] for c in theirs["schema"]]:
        return f"want columns {theirs['schema']}\n         got {_columns(scan.row_type)}"
    plain = PLAIN.get(name, _same)
    if name == "binlog":
        plain = partial(_unpacked, unordered=script.unordered)
    want = theirs["rows"]
    if name in ("files", "file_key_ranges"):
        schema = scan.handle.schema
        bytes_columns = [f.name for f in schema.fields if isinstance(f.type, BinaryType)]
        plain = partial(_file, bytes_columns=bytes_columns, key=schema.trimmed_primary_keys)
        if options:  # Java lists the files of partitions that the head has, too
            partitions = {row["partition"] for row in want}
            rows = [row for row in rows if row["partition"] in partitions]
    if name == "snapshots" and branch is None and script.name in LISTED_FROM_A_WRONG_HINT:
        hint = int(Path(path, "snapshot", "EARLIEST").read_text())
        assert {row["snapshot_id"] for row in rows if row["snapshot_id"] < hint} == {1}
        rows = [row for row in rows if row["snapshot_id"] >= hint]
    names = [c[1] for c in theirs["schema"]]
    mine = [plain({n: row[n] for n in names}) for row in rows]
    return difference([plain(row) for row in want], mine, script.unordered)


def _columns(row_type: RowType) -> list[list[str]]:
    return [[f.name, str(f.type)] for f in row_type]


def _unpacked(row: Row, unordered: Collection[str]) -> Row:
    """Arrays that have no order, sorted."""
    return {k: [v and sorted(v, key=row_line) for v in vs] if k in unordered else vs for k, vs in row.items()}


def _same(row: Row) -> Row:
    return row


def _file(row: Row, bytes_columns: Collection[str], key: Sequence[str]) -> Row:
    """Paths without scheme, which Java was given without, and no addresses in memory, which Java shows for bytes."""
    out = {**row, "file_path": row["file_path"].removeprefix("file://")}
    for name in ("min_value_stats", "max_value_stats"):
        for column in bytes_columns if name in out else ():
            pattern = rf"(?<=[{{ ]){re.escape(column)}=(?!null)[^,}}]*"
            out[name] = re.sub(pattern, f"{column}=BYTES", out[name])
    for name in ("min_key", "max_key"):
        if out[name] is not None and any(k in bytes_columns for k in key):
            values = out[name][1:-1].split(", ")
            out[name] = ["BYTES" if k in bytes_columns else v for k, v in zip(key, values, strict=True)]
    return out


def _tag(row: Row) -> Row:
    """Milliseconds of the times, which is what the column's type holds; Java hands on all digits."""
    return {k: v and v[:-6] if k == "create_time" else v for k, v in row.items()}


def _schema(row: Row) -> Row:
    """Options in any order: Java keeps them in a hash map."""
    return {**row, "options": sorted(json.loads(row["options"]).items())}


def _aggregation(row: Row) -> Row:
    return {k: sorted(v[1:-1].split(", ")) if k.startswith("function") else v for k, v in row.items()}


PLAIN: dict[str, Callable[[Row], Row]] = {
    "tags": _tag,
    "schemas": _schema,
    "aggregation_fields": _aggregation,
}
