"""Grammar of CREATE: of tables, databases and views; and of DROP and ALTER DATABASE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_spark.errors import InvalidInputError, SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import (
    ColumnClause,
    column_clause,
    constraint_advice,
    properties,
    unsupported,
    valid_or_invalid,
)
from paimon_spark.sql.grammar.foreign import refuse_clone
from paimon_spark.sql.requests import CreateMode, TableRequest
from paimon_spark.sql.statement import InvalidStatement, Name, Statement, TableStatement
from paimon_spark.sql.tokens import abbreviated
from paimon_spark.types import DataField, RowType

_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
_CONSTRAINTS: Final = (("PRIMARY", "KEY"), ("UNIQUE", "("), ("CHECK", "("), ("FOREIGN", "KEY"))
_TYPES: Final = (
    "INT", "BIGINT", "STRING", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP", "BOOLEAN", "BINARY", "DECIMAL", "ARRAY",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CreateTable(TableStatement):
    """CREATE TABLE or REPLACE TABLE, with the rows of a query if it has one."""

    request: TableRequest
    query: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTableLike(TableStatement):
    """CREATE TABLE … LIKE another table."""

    source: Name
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    provider: str | None = None


@dataclass(slots=True)
class _Clauses:
    """The clauses behind the columns, in any order; `texts` has provider, comment, location and query."""

    texts: dict[str, str] = field(default_factory=dict)
    partition: list[str] = field(default_factory=list)
    partition_fields: list[DataField] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)


def read_create(mode: CreateMode, cursor: Cursor) -> Statement:
    """Read CREATE [OR REPLACE] TABLE or REPLACE TABLE. Raises SqlSyntaxError: no name of a table follows."""
    if mode is CreateMode.CREATE and cursor.take("IF", "NOT", "EXISTS"):
        mode = CreateMode.IF_NOT_EXISTS
    name = cursor.name()
    provider = _find_provider(cursor) or ""
    is_like = cursor.at("LIKE")
    read = _like if is_like else _table
    found = valid_or_invalid(cursor, name, lambda: read(cursor, name, mode), provider)
    return replace(found, copies=is_like) if isinstance(found, InvalidStatement) else found


def _find_provider(cursor: Cursor) -> str | None:
    """The format after USING, or `hive` for Hive's clauses, wherever it stands; the cursor does not move."""
    before, provider = cursor.index, None
    while not cursor.at_end:
        if cursor.take("USING") and not cursor.at_end:
            provider = ".".join(cursor.name("the name of a format"))
            break
        if cursor.take("STORED", "AS") or cursor.take("STORED", "BY") or cursor.take("ROW", "FORMAT"):
            provider = "hive"
            break
        if cursor.at("AS") or cursor.token is None or cursor.token.keyword in _QUERIES:
            break
        if cursor.take("("):
            cursor.until(")")
        cursor.index += 1
    cursor.index = before
    return provider


def _table(cursor: Cursor, name: Name, mode: CreateMode) -> CreateTable:
    columns = None if _is_query(cursor) else cursor.parenthesised_list(lambda: _column(cursor).field)
    replaces = mode in (CreateMode.REPLACE, CreateMode.CREATE_OR_REPLACE)
    refuse_clone(cursor, name, or_replace=replaces, if_not_exists=mode is CreateMode.IF_NOT_EXISTS)
    clauses = _Clauses()
    while not cursor.at_end and "query" not in clauses.texts:
        _read_clause(cursor, clauses)
    if "query" in clauses.texts and (columns is not None or clauses.partition_fields):
        raise SqlSyntaxError(
            "CREATE TABLE AS takes its columns from the query; name none, or cast them in the query: "
            f"{abbreviated(cursor.sql)}",
            sql=cursor.sql,
        )
    if clauses.partition_fields:
        columns = [*(columns or ()), *clauses.partition_fields]
    if columns is None and "query" not in clauses.texts:
        cursor.fail("the columns of the table in brackets, or AS and a query")
    query = clauses.texts.pop("query", None)
    request = TableRequest(
        mode,
        None if columns is None else _row_type(cursor, columns),
        (*clauses.partition, *(f.name for f in clauses.partition_fields)),
        clauses.properties,
        **clauses.texts,
    )
    return CreateTable(cursor.sql, name, request, query)


def _row_type(cursor: Cursor, fields: list[DataField]) -> RowType:
    names = [f.name.lower() for f in fields]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"column {twice!r} is defined twice in: {abbreviated(cursor.sql)}", column=twice)
    return RowType(
        False, tuple(DataField(i, f.name, f.type, f.description, f.default_value) for i, f in enumerate(fields))
    )


def _is_query(cursor: Cursor) -> bool:
    """Whether what follows is not a list of columns: a query, perhaps in brackets, or another clause."""
    if not cursor.at("("):
        return True
    return any(cursor.at("(", word) and not _is_column_name(cursor) for word in (*_QUERIES, "("))


def _is_column_name(cursor: Cursor) -> bool:
    """Whether the keyword behind the bracket is the name of a column: a type follows it."""
    following = [t.keyword for t in cursor.tokens[cursor.index + 2 : cursor.index + 4]]
    return bool(following) and following[0] in _TYPES and following[-1:] != ["."]


def _column(cursor: Cursor) -> ColumnClause:
    if any(cursor.at(*words) for words in _CONSTRAINTS) or _is_named_constraint(cursor):
        words = [t.keyword for t in cursor.tokens[cursor.index : cursor.index + 3]]
        kind = words[2] if words[0] == "CONSTRAINT" else words[0]
        unsupported(cursor, *constraint_advice(str(kind)))
    found = column_clause(cursor)
    if len(found.path) > 1 or found.position is not None:
        cursor.fail("columns in their order, without FIRST, AFTER and dots in names")
    return found


def _is_named_constraint(cursor: Cursor) -> bool:
    following = [t.keyword for t in cursor.tokens[cursor.index : cursor.index + 3]]
    return following[:1] == ["CONSTRAINT"] and following[2:] in (["PRIMARY"], ["UNIQUE"], ["CHECK"], ["FOREIGN"])


def _read_clause(cursor: Cursor, out: _Clauses) -> None:
    if cursor.take("AS") or (cursor.token is not None and cursor.token.keyword in (*_QUERIES, "(")):
        out.texts["query"] = cursor.rest() or cursor.fail("a query")
        return
    found = cursor.take_one("USING", "COMMENT", "LOCATION", "TBLPROPERTIES", "OPTIONS")
    if found is None and cursor.take("PARTITIONED", "BY"):
        found = "PARTITIONED BY"
    if found is None:
        _refuse_clause(cursor)
        cursor.fail("USING, PARTITIONED BY, COMMENT, TBLPROPERTIES, LOCATION or AS and a query")
    if found in out.seen:
        raise SqlSyntaxError(f"{found} is given twice in: {abbreviated(cursor.sql)}", sql=cursor.sql)
    out.seen.add(found)
    match found:
        case "USING":
            out.texts["provider"] = ".".join(cursor.name("the name of a format"))
        case "COMMENT" | "LOCATION":
            out.texts[found.lower()] = cursor.text()
        case "PARTITIONED BY":
            cursor.parenthesised_list(lambda: _read_partition_column(cursor, out))
            if out.partition and out.partition_fields:
                raise SqlSyntaxError(
                    f"PARTITIONED BY takes names of columns or columns with types, not both: {abbreviated(cursor.sql)}",
                    sql=cursor.sql,
                )
        case _:
            more = properties(cursor)
            both = out.properties.keys() & more.keys()
            if both:
                raise SqlSyntaxError(
                    f"property {min(both)!r} is given in OPTIONS and in TBLPROPERTIES of: {abbreviated(cursor.sql)}",
                    sql=cursor.sql,
                )
            out.properties |= more


def _read_partition_column(cursor: Cursor, out: _Clauses) -> None:
    if not cursor.tokens[cursor.index + 1 : cursor.index + 2]:
        cursor.fail("the name of a column")
    following = cursor.tokens[cursor.index + 1].keyword
    if following in (",", ")"):
        out.partition.append(cursor.identifier("the name of a column"))
    elif following in ("(", "."):
        transform = cursor.until(",", ")", of_types=True)
        instead = "rows are partitioned by values of columns; add a column that holds the value"
        unsupported(cursor, f"partitions by {transform}", instead)
    else:
        out.partition_fields.append(column_clause(cursor).field)


def _refuse_clause(cursor: Cursor) -> None:
    if cursor.at("CLUSTERED", "BY"):
        instead = "buckets are properties, TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'column,…')"
        unsupported(cursor, "CLUSTERED BY … INTO … BUCKETS", instead)
    if cursor.at("CLUSTER", "BY"):
        unsupported(cursor, "CLUSTER BY", "it is a property, TBLPROPERTIES ('clustering.columns' = 'column,…')")
    if cursor.at("STORED") or cursor.at("ROW", "FORMAT"):
        unsupported(cursor, "STORED AS and ROW FORMAT", "the format is a property, 'file.format' = 'parquet'")
    if cursor.at("DEFAULT", "COLLATION"):
        unsupported(cursor, "collations", "texts compare by their bytes; leave the clause out")


def _like(cursor: Cursor, name: Name, mode: CreateMode) -> CreateTableLike:
    cursor.expect("LIKE")
    if mode.replaces:
        cursor.fail("columns or a query: LIKE creates new tables only")
    source = cursor.name()
    out = _Clauses()
    while not cursor.at_end:
        if cursor.at("PARTITIONED") or cursor.at("AS") or cursor.at("COMMENT"):
            cursor.fail("USING, TBLPROPERTIES or LOCATION")
        _read_clause(cursor, out)
    return CreateTableLike(cursor.sql, name, source, mode is CreateMode.IF_NOT_EXISTS, out.properties, **out.texts)


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """CREATE DATABASE; a warehouse of directories cannot store the clauses in `not_stored`."""

    name: Name
    if_not_exists: bool = False
    location: str | None = None
    not_stored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    """DROP DATABASE."""

    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """ALTER DATABASE, of anything."""

    name: Name


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE VIEW, not a temporary one.

    Attributes:
        query: its text, blank when none was found.
        columns: names and comments; () when the query gives them.
        other: text of clauses that only Spark's own views have.
    """

    name: Name
    query: str
    replaces: bool = False
    if_not_exists: bool = False
    columns: tuple[tuple[str, str | None], ...] = ()
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    other: str = ""


@dataclass(frozen=True, slots=True)
class DropView(Statement):
    """DROP VIEW."""

    name: Name
    if_exists: bool


def read_create_database(cursor: Cursor) -> Statement:
    """Read CREATE DATABASE. Raises SqlSyntaxError."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a database")
    location: str | None = None
    not_stored: list[str] = []
    while not cursor.at_end:
        if cursor.take("COMMENT"):
            cursor.text()
            not_stored.append("COMMENT")
        elif cursor.take("LOCATION"):
            location = cursor.text()
        elif cursor.take("WITH", "DBPROPERTIES") or cursor.take("WITH", "PROPERTIES"):
            properties(cursor)
            not_stored.append("PROPERTIES")
        elif cursor.take("DEFAULT", "COLLATION"):
            cursor.identifier("the name of a collation")
            not_stored.append("COLLATION")
        else:
            cursor.fail("COMMENT, LOCATION or WITH DBPROPERTIES")
    return CreateDatabase(cursor.sql, name, if_not_exists, location, tuple(not_stored))


def read_drop_database(cursor: Cursor) -> Statement:
    """Read DROP DATABASE. Raises SqlSyntaxError."""
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name("the name of a database")
    return DropDatabase(cursor.sql, name, if_exists, cursor.take_one("CASCADE", "RESTRICT") == "CASCADE")


def read_alter_database(cursor: Cursor) -> Statement:
    """Read the name in ALTER DATABASE, and pass over the rest. Raises SqlSyntaxError."""
    name = cursor.name("the name of a database")
    cursor.rest()
    return AlterDatabase(cursor.sql, name)


def read_create_view(cursor: Cursor, *, replaces: bool = False) -> Statement:
    """Read CREATE VIEW. Raises SqlSyntaxError: no name follows, or columns that are no list of names."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a view")
    columns = cursor.parenthesised_list(lambda: view_column(cursor)) if cursor.at("(") else []
    comment, given = None, {}
    while (word := cursor.take_one("COMMENT", "TBLPROPERTIES")) is not None:
        if word == "COMMENT":
            comment = cursor.text("a comment")
        else:
            given = properties(cursor)
    other = cursor.until("AS")
    cursor.take("AS")
    return CreateView(cursor.sql, name, cursor.rest(), replaces, if_not_exists, tuple(columns), comment, given, other)


def view_column(cursor: Cursor) -> tuple[str, str | None]:
    """Read the name and the comment of a column of a view. Raises SqlSyntaxError."""
    name = cursor.identifier("the name of a column")
    return name, cursor.text("a comment") if cursor.take("COMMENT") else None


def read_drop_view(cursor: Cursor) -> Statement:
    """Read DROP VIEW. Raises SqlSyntaxError."""
    if_exists = cursor.take("IF", "EXISTS")
    return DropView(cursor.sql, cursor.name("the name of a view"), if_exists)
