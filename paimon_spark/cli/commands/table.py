"""Tables: what there is, their definition, and changes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.cli.answer import Answer, lines, plain, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, Scope, flag, key_value
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.removed import names
from paimon_spark.cli.text import counted, grid, safe, shown
from paimon_spark.options.known import shown_options

if TYPE_CHECKING:
    from paimon_spark.api.table import Table


def columns_text(text: str) -> tuple[str, ...]:
    """`a, b` → names. Raises ValueError."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("expected names with commas between")
    return found


def _list(call: Call) -> Answer:
    catalog = call.catalog()
    databases = [call["database"]] if call["database"] else catalog.list_databases()
    found = [f"{database}.{table}" for database in databases for table in catalog.list_tables(database)]
    return rows(("table",), [(name,) for name in found], data=found, empty="no tables")


def _show(call: Call) -> Answer:
    table = call.table()
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

    def text(room: int | None) -> list[str]:
        told = [f"{safe(table.name)}, branch {safe(table.branch_name)}, schema {schema.id}", safe(table.location), ""]
        has_more = any(f[2] or f[3] for f in fields)
        heads = ("column", "type", "comment", "default") if has_more else ("column", "type")
        told += grid(heads, [row[: len(heads)] for row in fields], room)
        facts = {
            "primary key": schema.primary_keys,
            "partitioned by": schema.partition_keys,
            "comment": schema.comment,
        }
        told += (
            ["", *(f"{name}: {shown(value)}" for name, value in facts.items() if value)] if any(facts.values()) else []
        )
        if options:
            told += ["", *(f"{safe(k)} = {safe(v)}" for k, v in sorted(options.items()))]
        return told

    return Answer(plain(data), text)


def _create(call: Call) -> Answer:
    options = {k: v for k, v in call["option"] if not _is_storage(k)}
    table = call.catalog().create_table(
        call.table_text,
        call["columns"],
        call["primary_key"] or (),
        call["partition_by"] or (),
        options,
        call["comment"],
        ignore_if_exists=call["if_not_exists"],
    )
    return sentence(
        f"table {safe(table.name)} at {safe(table.location)}", {"table": table.name, "location": table.location}
    )


def _is_storage(key: str) -> bool:
    from paimon_spark.options.known import is_storage_option

    return is_storage_option(key)


def _drop(call: Call) -> Answer:
    _by_name(call, "dropped")
    table, catalog, name = call.table(), call.catalog(), call.table_text
    told = {
        "table": table.name,
        "location": table.location,
        "snapshots": len(table.snapshots()),
        "tags": [t.name for t in table.tags() if t.guards is None],
        "branches": [b.name for b in table.branches()],
    }

    def answer(_: None, dry_run: bool) -> Answer:
        text = [f"{'would drop' if dry_run else 'dropped'} table {safe(table.name)} with all its files"]
        text.append(f"{safe(table.location)}: {counted(told['snapshots'], 'snapshot')}")  # type: ignore[arg-type]
        text += [names(told[k], n) for k, n in (("tags", "tag"), ("branches", "branch")) if told[k]]  # type: ignore[arg-type]
        return lines(text, {"dry_run": dry_run, **told})

    return call.deleting(
        f"drop table {table.name}", plan=lambda: None, act=lambda: catalog.drop_table(name), answer=answer
    )


def _rename(call: Call) -> Answer:
    _by_name(call, "renamed")
    new = call["new_name"]
    from paimon_spark.options.location import split_name

    database, table = split_name(call.table_text)
    full = new if "." in new else f"`{database}`.`{new}`"
    call.catalog().rename_table(call.table_text, full)
    old, new = f"{database}.{table}", ".".join(split_name(full))
    return sentence(f"{safe(old)} is {safe(new)}", {"old": old, "new": new})


def _by_name(call: Call, verb: str) -> None:
    from paimon_spark.options.location import is_name, split_suffix

    if call["path"] or call["branch"] or not is_name(split_suffix(call.table_text)[0]):
        raise UsageError(f"only a whole table can be {verb}, by its name in a warehouse: give db.t, and no branch")


_CHANGES = ("add", "drop", "rename", "retype", "set", "unset", "comment_on", "move")


def _alter(call: Call) -> Answer:
    table = call.table()
    comment = call["comment"]
    if comment is None and not any(call[name] for name in _CHANGES):
        raise UsageError("nothing is to be altered; give --add, --drop, --rename, --retype, --set, --unset, --move …")
    changed: Table = table.alter(
        add=_pairs(call["add"]),
        drop=[c for found in call["drop"] for c in found],
        rename=dict(call["rename"]),
        retype=dict(call["retype"]),
        set_options=dict(call["set"]),
        unset_options=[k for found in call["unset"] for k in found],
        comments=dict(call["comment_on"]),
        move=dict(call["move"]),
        comment=comment,
    )
    told = f"{safe(changed.name)}, branch {safe(changed.branch_name)}, has schema {changed.schema.id}"
    return sentence(told, {"table": changed.name, "branch": changed.branch_name, "schema_id": changed.schema.id})


def _pairs(found: list[tuple[str, str]]) -> dict[str, Any]:
    return dict(found)


def _typed_column(text: str) -> tuple[str, str]:
    """`name TYPE`, or `name=TYPE`. Raises ValueError."""
    equals, space = text.find("="), text.find(" ")
    if equals > 0 and (space < 0 or equals < space):
        return key_value(text)
    name, _, kind = text.strip().partition(" ")
    if not kind.strip():
        raise ValueError("expected a column and its type, as in 'price DECIMAL(10, 2)'")
    return name.strip("`"), kind.strip()


COMMANDS = (
    Command(
        "table",
        "list",
        "list the tables of a database, or of all",
        _list,
        (Argument("database", "database", positional=True),),
        scope=Scope.WAREHOUSE,
    ),
    Command("table", "show", "show columns, keys and options of a table", _show),
    Command(
        "table",
        "create",
        "make a table; its options are given with --option",
        _create,
        (
            Argument(
                "columns",
                "columns as in CREATE TABLE: 'id BIGINT NOT NULL, name STRING'",
                positional=True,
                required=True,
            ),
            Argument("primary_key", "columns, with commas between", parse=columns_text),
            Argument(
                "partition_by", "columns, with commas between", parse=columns_text, spellings=("--partition-keys",)
            ),
            Argument("comment", "of the table"),
            flag("if_not_exists", "do nothing where there is one"),
        ),
        Kind.WRITE,
        aliases=("create-table",),
    ),
    Command(
        "table",
        "drop",
        "remove a table with its branches and all its files",
        _drop,
        kind=Kind.DELETE,
        aliases=("drop-table",),
    ),
    Command(
        "table",
        "rename",
        "give a table another name, perhaps in another database",
        _rename,
        (Argument("new_name", "the new name, t or db.t", positional=True, required=True),),
        Kind.WRITE,
        aliases=("rename-table",),
    ),
    Command(
        "table",
        "alter",
        "change columns and options of a branch, all or nothing",
        _alter,
        (
            Argument("add", "column to add: 'c INT COMMENT …'", repeated=True, parse=_typed_column, metavar="COLUMN"),
            Argument("drop", "columns to drop", repeated=True, parse=columns_text, metavar="COLUMNS"),
            Argument("rename", "column to rename: old=new", repeated=True, parse=key_value, metavar="OLD=NEW"),
            Argument("retype", "another type: 'c BIGINT'", repeated=True, parse=_typed_column, metavar="COLUMN"),
            Argument("set", "option to set", repeated=True, parse=key_value, metavar="KEY=VALUE"),
            Argument(
                "unset", "options that go back to their defaults", repeated=True, parse=columns_text, metavar="KEYS"
            ),
            Argument(
                "comment_on", "comment of a column: c=text", repeated=True, parse=key_value, metavar="COLUMN=TEXT"
            ),
            Argument(
                "move", "place of a column: c=first, c='after b'", repeated=True, parse=key_value, metavar="C=PLACE"
            ),
            Argument("comment", "of the table; empty for none"),
        ),
        Kind.WRITE,
        aliases=("alter-table",),
    ),
)
