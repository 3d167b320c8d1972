"""CREATE TABLE and REPLACE TABLE: text → statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.errors import InvalidInputError, SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.grammar.clauses import WrittenColumn, column, guarded, piece, properties, unsupported
from paimon_spark.sql.tables.statements import CreateTable, CreateTableLike, Making, Name
from paimon_spark.sql.tokens import shown
from paimon_spark.types import DataField, RowType

_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
_CONSTRAINTS: Final = (("PRIMARY", "KEY"), ("UNIQUE", "("), ("CHECK", "("), ("FOREIGN", "KEY"))
_KEY: Final = "the key is a property, TBLPROPERTIES ('primary-key' = 'column,…')"


@dataclass(slots=True)
class _Clauses:
    """What follows the columns, in any order."""

    provider: str | None = None
    partition: list[str] = field(default_factory=list)
    partition_fields: list[DataField] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    query: str | None = None
    seen: set[str] = field(default_factory=set)


def read_create(cursor: Cursor) -> Statement:
    """CREATE [OR REPLACE] TABLE, REPLACE TABLE. Raises SqlSyntaxError: no name of a table follows."""
    making = _making(cursor)
    name = cursor.name()
    provider = _provider(cursor) or ""
    if cursor.at("LIKE"):
        return guarded(cursor, name, lambda: _like(cursor, name, making), provider)
    return guarded(cursor, name, lambda: _table(cursor, name, making), provider)


def _making(cursor: Cursor) -> Making:
    if cursor.take("REPLACE", "TABLE"):
        return Making.REPLACE
    cursor.expect("CREATE")
    if cursor.take("OR", "REPLACE"):
        cursor.expect("TABLE")
        return Making.CREATE_OR_REPLACE
    cursor.expect("TABLE")
    return Making.IF_NOT_EXISTS if cursor.take("IF", "NOT", "EXISTS") else Making.CREATE


def _provider(cursor: Cursor) -> str | None:
    """What the statement says after USING, or that Hive is to keep the table; the cursor stays."""
    before, provider = cursor.index, None
    while not cursor.is_over:
        if cursor.take("USING") and not cursor.is_over:
            provider = ".".join(cursor.name("the name of a format"))
            break
        if cursor.take("STORED", "AS") or cursor.take("STORED", "BY") or cursor.take("ROW", "FORMAT"):
            provider = "hive"
            break
        if cursor.at("AS") or cursor.word is None or cursor.word.keyword in _QUERIES:
            break
        # A bracket is gone past as a whole.
        if cursor.take("("):
            cursor.until(")")
        cursor.index += 1
    cursor.index = before
    return provider


def _table(cursor: Cursor, name: Name, making: Making) -> CreateTable:
    written = None if _is_query(cursor) else _columns(cursor)
    clauses = _Clauses()
    while not cursor.is_over and clauses.query is None:
        _clause(cursor, clauses)
    columns = None if written is None else [c.field for c in written]
    if clauses.query is not None and (columns is not None or clauses.partition_fields):
        raise SqlSyntaxError(
            f"a table made of a query has the query's columns; name none, or cast them there: {shown(cursor.sql)}",
            sql=cursor.sql,
        )
    if clauses.partition_fields:
        columns = [*(columns or ()), *clauses.partition_fields]
    if columns is None and clauses.query is None:
        cursor.fail("the columns of the table in brackets, or AS and a query")
    return CreateTable(
        cursor.sql,
        name,
        making,
        None if columns is None else _row(cursor, columns),
        (*clauses.partition, *(f.name for f in clauses.partition_fields)),
        clauses.properties,
        clauses.comment,
        clauses.location,
        clauses.query,
        clauses.provider,
    )


def _row(cursor: Cursor, fields: list[DataField]) -> RowType:
    names = [f.name.lower() for f in fields]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"column {twice!r} is there twice in: {shown(cursor.sql)}", column=twice)
    return RowType(
        False, tuple(DataField(i, f.name, f.type, f.description, f.default_value) for i, f in enumerate(fields))
    )


def _is_query(cursor: Cursor) -> bool:
    """Whether a query follows, though perhaps in brackets, or no columns at all."""
    if not cursor.at("("):
        return True
    return any(cursor.at("(", word) and not _is_column_called(cursor) for word in (*_QUERIES, "("))


def _is_column_called(cursor: Cursor) -> bool:
    """Whether the word after the bracket, a keyword, is the name of a column: a type follows it."""
    following = [w.keyword for w in cursor.words[cursor.index + 2 : cursor.index + 4]]
    types = ("INT", "BIGINT", "STRING", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP", "BOOLEAN", "BINARY", "DECIMAL", "ARRAY")
    return bool(following) and following[0] in types and following[-1:] != ["."]


def _columns(cursor: Cursor) -> list[WrittenColumn]:
    cursor.expect("(")
    found: list[WrittenColumn] = []
    while True:
        if any(cursor.at(*words) for words in _CONSTRAINTS) or _is_named_constraint(cursor):
            what = "PRIMARY KEY clause" if "PRIMARY" in piece(cursor, ",", ")").upper() else "constraints but NOT NULL"
            unsupported(cursor, what, _KEY)
        written = column(cursor)
        if len(written.path) > 1 or written.position is not None:
            cursor.fail("columns in their order, without FIRST, AFTER and dots in names")
        found.append(written)
        if cursor.take(")"):
            return found
        if not cursor.take(","):
            cursor.fail("',' or ')'")


def _is_named_constraint(cursor: Cursor) -> bool:
    following = [w.keyword for w in cursor.words[cursor.index : cursor.index + 3]]
    return following[:1] == ["CONSTRAINT"] and following[2:] in (["PRIMARY"], ["UNIQUE"], ["CHECK"], ["FOREIGN"])


def _clause(cursor: Cursor, out: _Clauses) -> None:
    if cursor.take("AS") or (cursor.word is not None and cursor.word.keyword in (*_QUERIES, "(")):
        out.query = cursor.rest()
        if not out.query:
            cursor.fail("a query")
        return
    found = cursor.take_one("USING", "COMMENT", "LOCATION", "TBLPROPERTIES", "OPTIONS")
    if found is None and cursor.take("PARTITIONED", "BY"):
        found = "PARTITIONED BY"
    if found is None:
        _refuse_clause(cursor)
        cursor.fail("USING, PARTITIONED BY, COMMENT, TBLPROPERTIES, LOCATION or AS and a query")
    if found in out.seen:
        raise SqlSyntaxError(f"{found} stands twice in: {shown(cursor.sql)}", sql=cursor.sql)
    out.seen.add(found)
    match found:
        case "USING":
            out.provider = ".".join(cursor.name("the name of a format"))
        case "COMMENT":
            out.comment = cursor.text()
        case "LOCATION":
            out.location = cursor.text()
        case "PARTITIONED BY":
            _partitioning(cursor, out)
        case _:
            _add_properties(cursor, out, properties(cursor))


def _add_properties(cursor: Cursor, out: _Clauses, found: Mapping[str, str]) -> None:
    both = out.properties.keys() & found.keys()
    if both:
        raise SqlSyntaxError(
            f"property {min(both)!r} stands in OPTIONS and in TBLPROPERTIES of: {shown(cursor.sql)}",
            sql=cursor.sql,
        )
    out.properties |= found


def _partitioning(cursor: Cursor, out: _Clauses) -> None:
    cursor.expect("(")
    while True:
        if not cursor.words[cursor.index + 1 : cursor.index + 2]:
            cursor.fail("the name of a column")
        follows = cursor.words[cursor.index + 1].keyword
        if follows in (",", ")"):
            out.partition.append(cursor.identifier("the name of a column"))
        elif follows in ("(", "."):
            unsupported(
                cursor,
                f"partitions by {piece(cursor, ',', ')')}",
                "rows are partitioned by values of columns; add a column that holds the value",
            )
        else:
            written = column(cursor)
            out.partition_fields.append(written.field)
        if cursor.take(")"):
            break
        if not cursor.take(","):
            cursor.fail("',' or ')'")
    if out.partition and out.partition_fields:
        raise SqlSyntaxError(
            f"PARTITIONED BY names columns, or defines them with their types, not both: {shown(cursor.sql)}",
            sql=cursor.sql,
        )


def _refuse_clause(cursor: Cursor) -> None:
    if cursor.at("CLUSTERED", "BY"):
        unsupported(
            cursor,
            "CLUSTERED BY … INTO … BUCKETS",
            "buckets are properties, TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'column,…')",
        )
    if cursor.at("CLUSTER", "BY"):
        unsupported(cursor, "CLUSTER BY", "it is a property, TBLPROPERTIES ('clustering.columns' = 'column,…')")
    if cursor.at("STORED") or cursor.at("ROW", "FORMAT"):
        unsupported(cursor, "STORED AS and ROW FORMAT", "the format is a property, 'file.format' = 'parquet'")
    if cursor.at("DEFAULT", "COLLATION"):
        unsupported(cursor, "collations", "texts compare by their bytes; leave the clause out")


def _like(cursor: Cursor, name: Name, making: Making) -> CreateTableLike:
    cursor.expect("LIKE")
    if making.replaces:
        cursor.fail("columns or a query: LIKE makes new tables only")
    source = cursor.name()
    out = _Clauses()
    while not cursor.is_over:
        if cursor.at("PARTITIONED") or cursor.at("AS") or cursor.at("COMMENT"):
            cursor.fail("USING, TBLPROPERTIES or LOCATION")
        _clause(cursor, out)
    if_not_exists = making is Making.IF_NOT_EXISTS
    return CreateTableLike(cursor.sql, name, source, if_not_exists, out.properties, out.location, out.provider)
