"""Procedures of Iceberg, and the calls that take their place here.

`{table}` and its like in texts stand for what a call names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class _Procedure(NamedTuple):
    """A procedure of Iceberg.

    Attributes:
        parameters: those of Iceberg, in its order; arguments without names are in this order.
        ours: what to do here; `{call}` is the call of our procedure.
        name: of our procedure; blank without one.
        arguments: our parameters by Iceberg's.
        shown: Iceberg's parameters in the call that docs show.
        required: our parameters that the call shows even when they are not given.
        notes: what to say of Iceberg's parameters that our call lacks, or takes in another way, where they are given.
        needless: Iceberg's parameters that have nothing to do here, so that nothing is said of them.
        refused: texts that take the place of `ours` where a parameter is given.
    """

    parameters: tuple[str, ...]
    ours: str
    name: str = ""
    arguments: Mapping[str, str] = {}
    shown: tuple[str, ...] = ("table",)
    required: tuple[str, ...] = ("table",)
    notes: Mapping[str, str] = {}
    needless: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}


_SNAPSHOT: Final = ("table", "snapshot_id")
_KEEPS: Final = (
    "Use `{call}`, which keeps later versions as Iceberg does; `CALL sys.rollback(…)` with the same arguments deletes "
    "them"
)
_VERSION: Final = ("table", "version")
_BRANCH: Final = ("table", "branch")
_PARTITIONS_ONLY: Final = "`where` of compact chooses whole partitions, so it may name partition columns only"
_AS_PROPERTIES: Final = "properties stand behind `TBLPROPERTIES` of the new table"
_NO_COPY: Final = "the rows are copied, so the source stays as it is"
_RESET: Final = "a session that works on a branch ends that first: `RESET spark.wap.branch` or `spark.paimon.branch`"
_ONLY_MAIN: Final = (
    "Only main is moved by `CALL sys.fast_forward`; to give a branch the state of {to}, create it anew: "
    "`ALTER TABLE {table_name} DROP BRANCH {branch_name}` and "
    "`ALTER TABLE {table_name} CREATE BRANCH {branch_name} AS OF VERSION {to}`"
)
"""Iceberg's fast_forward of a branch other than main."""
PROCEDURES: Final[Mapping[str, _Procedure]] = {
    "rollback_to_snapshot": _Procedure(
        _SNAPSHOT,
        _KEEPS,
        "rollback_to_as_latest",
        {"table": "table", "snapshot_id": "version"},
        _SNAPSHOT,
        _VERSION,
    ),
    "set_current_snapshot": _Procedure(
        ("table", "snapshot_id", "ref"),
        _KEEPS,
        "rollback_to_as_latest",
        {"table": "table", "snapshot_id": "version", "ref": "version"},
        _SNAPSHOT,
        _VERSION,
    ),
    "rollback_to_timestamp": _Procedure(
        ("table", "timestamp"),
        "Use `CALL sys.rollback_to_timestamp(table => {table}, timestamp => unix_millis({timestamp}))`, which deletes "
        "later versions",
        shown=("table", "timestamp"),
    ),
    "cherrypick_snapshot": _Procedure(
        _SNAPSHOT,
        "Use `INSERT INTO {table_name} SELECT * FROM paimon_incremental_query({table}, {snapshot_id} - 1, "
        "{snapshot_id})`, which adds the rows that the snapshot added; a branch is published by "
        "`CALL sys.merge_branch(table => {table}, branch => '…')`",
        shown=_SNAPSHOT,
    ),
    "publish_changes": _Procedure(
        ("table", "wap_id"),
        f"Write on a branch, by `SET spark.paimon.branch`, and use `{{call}}`; {_RESET}",
        "merge_branch",
        {"table": "table", "wap_id": "branch"},
        ("table", "wap_id"),
        _BRANCH,
    ),
    "fast_forward": _Procedure(
        ("table", "branch", "to"),
        f"Use `{{call}}`, which moves main; {_RESET}",
        "fast_forward",
        {"table": "table", "to": "branch"},
        ("table", "branch", "to"),
        _BRANCH,
        needless=("branch",),
    ),
    "expire_snapshots": _Procedure(
        (
            "table", "older_than", "retain_last", "max_concurrent_deletes", "stream_results", "snapshot_ids",
            "clean_expired_metadata",
        ),
        "Use `{call}`",
        "expire_snapshots",
        {"table": "table", "older_than": "older_than", "retain_last": "retain_min"},
        ("table", "older_than", "retain_last"),
        notes={
            "clean_expired_metadata": "schemas are kept, so `clean_expired_metadata` has no equivalent"
        },
        needless=("max_concurrent_deletes", "stream_results"),
        refused={
            "snapshot_ids": "Single snapshots cannot be expired: the oldest go first. "
            "`CALL sys.expire_snapshots(table => {table}, older_than => …, dry_run => true)` returns what would "
            "expire up to a time; rows that must go are deleted first, by `DELETE FROM {table_name} WHERE …`"
        },
    ),
    "remove_orphan_files": _Procedure(
        (
            "table", "older_than", "location", "dry_run", "max_concurrent_deletes", "file_list_view", "equal_schemes",
            "equal_authorities", "prefix_mismatch_mode", "prefix_listing",
        ),
        "Use `{call}`",
        "remove_orphan_files",
        {"table": "table", "older_than": "older_than", "dry_run": "dry_run"},
        ("table", "older_than"),
        notes={"location": "the whole directory of the table is looked at, so `location` has no equivalent"},
        needless=("max_concurrent_deletes", "prefix_listing"),
    ),
    "rewrite_data_files": _Procedure(
        ("table", "strategy", "sort_order", "options", "where", "branch"),
        "Use `{call}`",
        "compact",
        {"table": "table", "sort_order": "order_by", "where": "where"},
        notes={
            "where": _PARTITIONS_ONLY,
            "options": "sizes and numbers of files are table options, as in `options => 'target-file-size=256 mb'`",
        },
        needless=("strategy", "branch"),
    ),
    "rewrite_manifests": _Procedure(
        ("table", "use_caching", "spec_id"),
        "Use `{call}`",
        "compact_manifest",
        {"table": "table"},
        needless=("use_caching",),
    ),
    "rewrite_position_delete_files": _Procedure(
        ("table", "options", "where"),
        "Use `{call}`",
        "compact",
        {"table": "table", "where": "where"},
        notes={"where": _PARTITIONS_ONLY},
    ),
    "snapshot": _Procedure(
        ("source_table", "table", "location", "properties", "parallelism"),
        "Use `CREATE TABLE {table_name} AS SELECT * FROM {source_table_name}`, which copies the rows",
        shown=("source_table", "table"),
        notes={"properties": _AS_PROPERTIES},
        needless=("parallelism",),
    ),
    "migrate": _Procedure(
        ("table", "properties", "drop_backup", "backup_table_name", "parallelism"),
        "Use `CREATE TABLE … AS SELECT * FROM {table_name}`, which copies the rows",
        notes={
            "properties": _AS_PROPERTIES, "drop_backup": _NO_COPY, "backup_table_name": _NO_COPY,
        },
        needless=("parallelism",),
    ),
    "add_files": _Procedure(
        ("table", "source_table", "partition_filter", "check_duplicate_files", "parallelism"),
        "Use `INSERT INTO {table_name} SELECT * FROM {source_table_name}`, which copies the rows",
        shown=("table", "source_table"),
        notes={"partition_filter": "choose the rows in the query: `SELECT * FROM … WHERE …`"},
        needless=("parallelism",),
    ),
    "register_table": _Procedure(
        ("table", "metadata_file"),
        "A table is known by its directory: put that into the warehouse, as `<database>.db/<table>`",
        shown=("table", "metadata_file"),
    ),
    "ancestors_of": _Procedure(("table", "snapshot_id"), "Use `DESCRIBE HISTORY {table_name}`"),
    "create_changelog_view": _Procedure(
        (
            "table", "changelog_view", "options", "compute_updates", "identifier_columns", "net_changes",
        ),
        "Use `{view}SELECT * FROM {changes}`, or `{table_name}$audit_log` "
        "for the changes of a table with a primary key",
        needless=("changelog_view", "options"),
    ),
    "compute_table_stats": _Procedure(
        ("table", "snapshot_id", "columns"),
        "Use `ANALYZE TABLE {table_name} COMPUTE STATISTICS FOR {columns}`",
        notes={"snapshot_id": "statistics are those of the newest snapshot, so `snapshot_id` has no equivalent"},
    ),
    "compute_partition_stats": _Procedure(
        ("table", "snapshot_id"), "Counts by partition are kept by every commit: see `{table_name}$partitions`"
    ),
    "rewrite_table_path": _Procedure(
        ("table", "source_prefix", "target_prefix", "start_version", "end_version", "staging_location"),
        "Copy the directory of the table: its metadata holds no absolute paths",
        needless=("source_prefix", "target_prefix", "staging_location"),
    ),
}  # fmt: skip
"""Iceberg's procedures, of its database `system`, by name."""

_ARGUMENTS: Final[Mapping[str, str]] = {
    "table": "'t'", "snapshot_id": "3", "branch": "'main'", "to": "'fix'", "wap_id": "'fix'", "source_table": "'s'",
    "older_than": "TIMESTAMP '2024-01-01'", "timestamp": "TIMESTAMP '2024-01-01'", "retain_last": "5",
    "metadata_file": "'…'",
}  # fmt: skip
"""Iceberg's arguments in docs, as SQL."""
_SORTED: Final = "order_by"
_Z_ORDER: Final = "zorder("
_MISSING: Final = "'…'"
_MAIN: Final = "main"
_DESCENDING: Final = re.compile(r"\bDESC\b", re.IGNORECASE)
_TEXTS: Final = re.compile(r"['\"]([^'\"]*)['\"]")
"""Text literals of an array or map."""


def instead_of_call(name: str, arguments: Mapping[str, str]) -> str:
    """Sentence with the equivalent of a call of a procedure of Iceberg, and what of the call has none.

    Args:
        name: of `PROCEDURES`.
        arguments: SQL texts by Iceberg's parameters; what is missing is shown as '…'.
    """
    procedure = PROCEDURES[name]
    text = next((t for p, t in procedure.refused.items() if p in arguments), None)
    if name == "fast_forward" and arguments.get("branch", _MAIN).strip("'\"").lower() != _MAIN:
        text = _ONLY_MAIN
    notes = () if text is not None else _notes(procedure, arguments)
    return "; ".join((_of_call(name, arguments, (text or procedure.ours).replace("`", "")), *notes))


def _notes(procedure: _Procedure, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences on the arguments that our call lacks, or takes in another way."""
    found = [procedure.notes[p].replace("`", "") for p in arguments if p in procedure.notes]
    if _DESCENDING.search(arguments.get("sort_order", "")):
        found.append("compact sorts in ascending order only")
    used = (*procedure.arguments, *procedure.notes, *procedure.needless)
    lost = [p for p in arguments if p not in used and not re.search(rf"{{{p}(_name)?}}", procedure.ours)]
    if lost:
        found.append(f"{' and '.join(lost)} {'has' if len(lost) == 1 else 'have'} no equivalent here")
    return tuple(dict.fromkeys(found))


def arguments_by_name(name: str, positional: tuple[str, ...], named: Mapping[str, str]) -> dict[str, str]:
    """The arguments of a call of a procedure of Iceberg by its parameters, in any case, with or without underscores."""
    known = PROCEDURES[name].parameters
    found = dict(zip(known, positional, strict=False))
    by_key = {_key(p): p for p in known}
    return {**found, **{by_key[_key(k)]: v for k, v in named.items() if _key(k) in by_key}}


def unknown_arguments(name: str, named: Mapping[str, str]) -> list[str]:
    """Names of arguments that a procedure of Iceberg does not take."""
    known = {_key(p) for p in PROCEDURES[name].parameters}
    return [k for k in named if _key(k) not in known]


def _key(name: str) -> str:
    return name.replace("_", "").lower()


def documented_procedures() -> list[tuple[str, str]]:
    """Calls of procedures and what to do here, in Markdown."""
    out = []
    for name, procedure in PROCEDURES.items():
        given = {p: _ARGUMENTS[p] for p in procedure.shown}
        out.append((f"`CALL system.{name}({', '.join(given.values())})`", _of_call(name, given, procedure.ours)))
    return [(theirs, ours.removeprefix("Use ")) for theirs, ours in out]


def _of_call(name: str, arguments: Mapping[str, str], text: str) -> str:
    procedure = PROCEDURES[name]
    given = {p: arguments.get(p, _MISSING) for p in procedure.parameters}
    if name == "rollback_to_timestamp" and _is_text(given["timestamp"]):
        given["timestamp"] = f"TIMESTAMP {given['timestamp']}"
    names = {f"{p}_name": value.strip("'\"") for p, value in given.items()}
    if name == "create_changelog_view":
        given.update(_changes(given["table"], arguments))
    if name == "compute_table_stats":
        listed = ", ".join(_TEXTS.findall(arguments.get("columns", "")))
        given["columns"] = f"COLUMNS {listed}" if listed else "ALL COLUMNS"
    ours = dict.fromkeys(procedure.required, _MISSING)
    ours.update((to, arguments[theirs]) for theirs, to in procedure.arguments.items() if theirs in arguments)
    if "branch" in arguments and procedure.name == "compact":
        ours["table"] = f"'{names['table_name']}$branch_{names['branch_name']}'"
    listed = ", ".join(f"{parameter} => {value}" for parameter, value in _sorting(ours).items())
    return text.format(call=f"CALL sys.{procedure.name}({listed})", **given, **names)


def _is_text(sql: str) -> bool:
    """Whether an argument is one text literal, with a value."""
    return sql != _MISSING and re.fullmatch(r"'[^']*'|\"[^\"]*\"", sql) is not None


def _changes(table: str, arguments: Mapping[str, str]) -> dict[str, str]:
    """The table function of the changes that create_changelog_view is asked for, and the view of them."""
    words = _TEXTS.findall(arguments.get("options", ""))
    options = dict(zip(words[::2], words[1::2], strict=False))
    start, end = (options.get(f"{side}-snapshot-id") for side in ("start", "end"))
    since, until = (options.get(f"{side}-timestamp") for side in ("start", "end"))
    call = f"paimon_table_diff({table}, '{start or '<old version>'}', '{end or '<new version>'}')"
    if since or until:
        call = f"paimon_incremental_between_timestamp({table}, '{since or 0}', '{until or '<end>'}')"
    name = arguments.get("changelog_view", "").strip("'\"")
    return {"changes": call, "view": f"CREATE TEMPORARY VIEW {name} AS " if name else ""}


def _sorting(arguments: dict[str, str]) -> dict[str, str]:
    """The arguments with a sort order of Iceberg, `zorder(a, b)` or `a DESC NULLS LAST, b`, in our two."""
    order = arguments.get(_SORTED)
    if order is None:
        return arguments
    text = order.strip("'\"")
    is_z_order = text.lower().replace(" ", "").startswith(_Z_ORDER)
    inner = text[text.index("(") + 1 :].rstrip(" )") if is_z_order else text
    columns = ",".join(part.split()[0] for part in inner.split(",") if part.split())
    return {**arguments, "order_strategy": "'zorder'" if is_z_order else "'order'", _SORTED: f"'{columns}'"}
