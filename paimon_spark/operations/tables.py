"""Operations on databases, tables and their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.operations.answer import Answer, lines, plain, rows
from paimon_spark.operations.operation import (
    Argument,
    Effect,
    Operation,
    Request,
    Subject,
    UsageError,
    command_flag,
    key_value,
    names_of,
    positional,
)
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import is_name, split_name, split_suffix
from paimon_spark.redaction import shown_options
from paimon_spark.text import counted, grid, named, safe, shown, sql_cell

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.api.table import Table

_HEAD = {"scan.mode": "latest"}
"""Read the rows that are there, whatever start the table's options name."""


def _show_names(a: Request, found: list[str]) -> Answer:
    what = a.caller.split()[0]
    return rows((what,), [(name,) for name in found], data=found, empty=f"no {what}s")


def _create_database(a: Request) -> str:
    a.catalog(may_create=True).create_database(a["name"], ignore_if_exists=a["if_not_exists"])
    return str(a["name"])


def _drop_database(a: Request) -> Sequence[str]:
    """Drop the database, and return its tables."""
    catalog, name = a.catalog(), a["name"]
    found = catalog.list_tables(name)
    if not a.dry_run:
        catalog.drop_database(name, cascade=a["cascade"])
    return found


def _show_dropped_database(a: Request, found: Sequence[str]) -> Answer:
    name = safe(a["name"])
    out = [f"{a.did('dropped', 'drop')} database {name}"]
    if found:
        out.append(f"with {named(found, 'table')}")
    if found and not a["cascade"]:
        out = [f"database {name} is not empty: {named(found, 'table')}; --cascade drops them with it"]
    return lines(out, {"dry_run": a.dry_run, "database": a["name"], "tables": found})


def _list(a: Request) -> list[str]:
    catalog = a.catalog()
    databases = [a["database"]] if a["database"] else catalog.list_databases()
    return [f"{database}.{table}" for database in databases for table in catalog.list_tables(database)]


def _show_definition(a: Request, table: Table) -> Answer:
    schema = table.schema
    options = shown_options(schema.options)
    fields = [(f.name, f.type, f.description, f.default_value) for f in schema.row_type.fields]
    data = {
        "table": table.name,
        "branch": table.branch_name,
        "location": table.location,
        "schema_id": schema.id,
        "columns": [
            {"id": f.id, "name": f.name, "type": str(f.type), "comment": f.description, "default": f.default_value}
            for f in schema.row_type.fields
        ],
        "primary_keys": schema.primary_keys,
        "partition_keys": schema.partition_keys,
        "options": options,
        "comment": schema.comment,
    }

    def text(width: int | None) -> Iterator[str]:
        yield f"{safe(table.name)}, branch {safe(table.branch_name)}, schema {schema.id}"
        yield safe(table.location)
        yield ""
        has_more = any(f[2] or f[3] for f in fields)
        heads = ("column", "type", "comment", "default") if has_more else ("column", "type")
        yield from grid(heads, [row[: len(heads)] for row in fields], width)
        values = (schema.primary_keys, schema.partition_keys, schema.comment)
        facts = dict(zip(("primary key", "partitioned by", "comment"), values, strict=True))
        found = [f"{name}: {shown(value)}" for name, value in facts.items() if value]
        for part in (found, [f"{safe(k)} = {safe(v)}" for k, v in sorted(options.items())]):
            yield from ["", *part] if part else []

    return Answer(plain(data), text)


def _create(a: Request) -> Table:
    return a.catalog().create_table(
        a.table_text,
        a["columns"],
        primary_keys=a["primary_key"] or (),
        partition_keys=a["partition_by"] or (),
        options={k: v for k, v in a["option"] if not is_storage_option(k)},
        comment=a["comment"],
        ignore_if_exists=a["if_not_exists"],
    )


def _show_created(a: Request, table: Table) -> Answer:
    out = f"table {safe(table.name)} at {safe(table.location)}"
    return lines(out, {"table": table.name, "location": table.location})


def _drop(a: Request) -> dict[str, Any]:
    _check_named(a, "dropped")
    table = a.table()
    branches = [b.name for b in table.branches()]
    found = {
        "table": table.name,
        "location": table.location,
        "snapshots": len(table.snapshots()),
        "tags": [t.name for t in table.tags()],
        "branches": branches,
        "backups": len(table.branches(include_internal=True)) - len(branches),
    }
    if not a.dry_run:
        left = a.catalog().drop_table(a.table_text)
        if left:
            found["left"] = left
    return found


def _show_dropped(a: Request, found: dict[str, Any]) -> Answer:
    out = [
        f"{a.did('dropped', 'drop')} table {safe(found['table'])} with all its files",
        *(f"left, as no writer of Paimon made it: {safe(url)}" for url in found.get("left", ())),
        f"{safe(found['location'])}: {counted(found['snapshots'], 'snapshot')}",
        *(named(found[k], n) for k, n in (("tags", "tag"), ("branches", "branch")) if found[k]),
        *([counted(found["backups"], "backup branch")] if found["backups"] else []),
    ]
    return lines(out, {"dry_run": a.dry_run, **found})


def _rename(a: Request) -> dict[str, str]:
    _check_named(a, "renamed")
    database, table = split_name(a.table_text)
    new = a["new_name"] if "." in a["new_name"] else f"`{database}`.`{a['new_name']}`"
    a.catalog().rename_table(a.table_text, new)
    return {"old": f"{database}.{table}", "new": ".".join(split_name(new))}


def _check_named(a: Request, verb: str) -> None:
    if a["path"] or a["on_branch"] or not is_name(split_suffix(a.table_text)[0]):
        raise UsageError(f"only a whole table can be {verb}, by its name in a warehouse: give db.t, and no branch")


def _alter(a: Request) -> Table:
    if a["comment"] is None and not any(a[argument.name] for argument in _CHANGES):
        raise UsageError("nothing to alter; give --add, --drop, --rename, --retype, --set, --unset, --move …")
    return a.table().alter(
        add=dict(a["add"]),
        drop=[c for found in a["drop"] for c in found],
        rename=dict(a["rename"]),
        retype=dict(a["retype"]),
        set_options=dict(a["set"]),
        unset_options=[k for found in a["unset"] for k in found],
        comments=dict(a["comment_on"]),
        move=dict(a["move"]),
        comment=a["comment"],
    )


def _typed_column(text: str) -> tuple[str, str]:
    """`name TYPE`, or `name=TYPE`. Raises ValueError."""
    equals, space = text.find("="), text.find(" ")
    if equals > 0 and (space < 0 or equals < space):
        return key_value(text)
    name, _, kind = text.strip().partition(" ")
    if not kind.strip():
        raise ValueError("expected a column and its type, as in 'price DECIMAL(10, 2)'")
    return name.strip("`"), kind.strip()


def limit_of(text: str) -> int | None:
    """A number of rows; None for `all`. Raises ValueError."""
    if text.lower() == "all":
        return None
    if not text.isdecimal():
        raise ValueError("expected 0 or more, or all")
    return int(text)


def _show_rows(a: Request, table: Table) -> Answer:
    scan = (table if a["version"] is None else table.at(a["version"])).scan(columns=a["columns"], where=a["where"])
    return first_rows(scan.arrow_schema.names, scan.to_batches(), a["limit"])


def first_rows(columns: Sequence[str], batches: Iterator[pa.RecordBatch], limit: int | None) -> Answer:
    """The first rows as a table, with a note when there are more; no more batches are read than they need."""

    def each() -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        from paimon_spark.format.arrays.nested import shown_values

        for batch in batches:
            values = [_values_of(column) for column in batch.columns]
            shown = [shown_values(column) for column in batch.columns]
            pairs = zip(zip(*values, strict=True), zip(*shown, strict=True), strict=True)
            yield from pairs if values else itertools.repeat(((), ()), batch.num_rows)

    every = each()
    found = list(itertools.islice(every, limit))
    has_more = limit is not None and next(every, None) is not None
    note = f"first {limit} {'row' if limit == 1 else 'rows'}; use --limit N" if has_more else ""
    data = [dict(zip(columns, row, strict=True)) for row, _ in found]
    return rows(columns, [row for _, row in found], data=data, empty="no rows", note=note, cell=sql_cell)


def _values_of(column: pa.Array) -> list[Any]:
    """Python values; text where Python has no such value, as of timestamps of nanoseconds."""
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError):
        values = column.cast(pa.string()).to_pylist()
    return values


def _delete_rows(a: Request) -> int | None:
    """Delete rows, and return how many; a dry run only counts them."""
    table, where = a.table(), a["where"]
    if a.dry_run:
        return sum(int(batch.num_rows) for batch in table.scan(columns=[], where=where, **_HEAD).to_batches())
    return table.delete(where).deleted_rows


def _show_deleted_rows(a: Request, count: int | None) -> Answer:
    found = "rows" if count is None else counted(count, "row")
    out = f"{a.did('deleted', 'delete')} {found} of {safe(a.table().name)} where {safe(a['where'])}"
    return lines(out, {"dry_run": a.dry_run, "rows": count, "where": a["where"]})


_DATABASE = positional("name", "name of the database", "", "--database")
_CHANGES = (
    Argument("add", "column to add: 'c INT COMMENT …'", repeated=True, parse=_typed_column, metavar="COLUMN"),
    Argument("drop", "columns to drop", repeated=True, parse=names_of, metavar="COLUMNS"),
    Argument("rename", "column to rename: old=new", repeated=True, parse=key_value, metavar="OLD=NEW"),
    Argument("retype", "new type of a column: 'c BIGINT'", repeated=True, parse=_typed_column, metavar="COLUMN"),
    Argument("set", "option to set", repeated=True, parse=key_value, metavar="KEY=VALUE"),
    Argument("unset", "options to set back to their defaults", repeated=True, parse=names_of, metavar="KEYS"),
    Argument("comment_on", "comment of a column: c=text", repeated=True, parse=key_value, metavar="COLUMN=TEXT"),
    Argument(
        "move", "position of a column: c=first, c='after b'", repeated=True, parse=key_value, metavar="C=POSITION"
    ),
)

OPERATIONS = (
    Operation(
        "print rows of a table, a version or a system table such as 'db.t$files', without Spark",
        lambda a: a.table(),
        (
            Argument("columns", "columns, separated by commas", parse=names_of, spellings=("-c",)),
            Argument("where", "SQL condition"),
            Argument("version", "tag, snapshot id, branch or any version"),
            Argument("limit", "how many rows to print at most, or all", default=20, parse=limit_of, spellings=("-n",)),
        ),
        command="show",
        synonyms=("scan", "head"),
        show=_show_rows,
    ),
    Operation(
        "list the databases of the warehouse",
        lambda a: a.catalog().list_databases(),
        subject=Subject.WAREHOUSE,
        command="database list",
        show=_show_names,
    ),
    Operation(
        "create a database",
        _create_database,
        (_DATABASE, command_flag("if_not_exists", "do nothing when it exists")),
        Effect.WRITE,
        Subject.WAREHOUSE,
        command="database create",
        synonyms=("create-database",),
        show=lambda a, name: lines(f"database {safe(name)}", {"database": name}),
    ),
    Operation(
        "drop a database",
        _drop_database,
        (_DATABASE, command_flag("cascade", "drop all its tables, too")),
        Effect.DELETE,
        Subject.WAREHOUSE,
        command="database drop",
        synonyms=("drop-database",),
        show=_show_dropped_database,
        question=lambda a: f"drop database {a['name']}",
    ),
    Operation(
        "list the tables of a database, or of all",
        _list,
        (positional("database", "name of the database", required=False),),
        subject=Subject.WAREHOUSE,
        command="table list",
        show=_show_names,
    ),
    Operation(
        "show columns, keys and options of a table", lambda a: a.table(), command="table show", show=_show_definition
    ),
    Operation(
        "create a table; its options are given with --option",
        _create,
        (
            positional("columns", "columns as in CREATE TABLE: 'id BIGINT NOT NULL, name STRING'"),
            Argument("primary_key", "columns, separated by commas", parse=names_of),
            Argument("partition_by", "columns, separated by commas", parse=names_of, spellings=("--partition-keys",)),
            Argument("comment", "comment of the table"),
            command_flag("if_not_exists", "do nothing when it exists"),
        ),
        Effect.WRITE,
        command="table create",
        synonyms=("create-table",),
        show=_show_created,
    ),
    Operation(
        "drop a table with its branches and all its files",
        _drop,
        effect=Effect.DELETE,
        command="table drop",
        synonyms=("drop-table",),
        show=_show_dropped,
        question=lambda a: f"drop table {a.table().name}",
    ),
    Operation(
        "rename a table, also into another database",
        _rename,
        (positional("new_name", "the new name, t or db.t"),),
        Effect.WRITE,
        command="table rename",
        synonyms=("rename-table",),
        show=lambda a, renamed: lines(f"{safe(renamed['old'])} is {safe(renamed['new'])}", renamed),
    ),
    Operation(
        "change columns and options of a branch, all or nothing",
        _alter,
        (*_CHANGES, Argument("comment", "comment of the table; empty for none")),
        Effect.WRITE,
        command="table alter",
        synonyms=("alter-table",),
        show=lambda a, table: lines(
            f"{safe(table.name)}, branch {safe(table.branch_name)}, has schema {table.schema.id}",
            {"table": table.name, "branch": table.branch_name, "schema_id": table.schema.id},
        ),
    ),
    Operation(
        "delete rows",
        _delete_rows,
        (Argument("where", "SQL condition of the rows to delete", required=True),),
        Effect.DELETE,
        command="delete",
        is_action=True,
        show=_show_deleted_rows,
        question=lambda a: f"delete rows of {a.table().name} where {a['where']}",
    ),
)
