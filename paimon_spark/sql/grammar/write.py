"""Grammar of INSERT, DELETE, UPDATE, MERGE, TRUNCATE and of unsupported writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.predicate.tokens import Token
from paimon_spark.spark.merge import Verb, When
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import (
    Assignment,
    assignments,
    column_path,
    complete_partition_expressions,
    expression,
    partition_expressions,
    write_options,
)
from paimon_spark.sql.statement import Name, Statement, TableStatement, UnsupportedStatement
from paimon_spark.sql.tokens import matching_bracket, outside_brackets
from paimon_spark.types import quoted_if_needed


@dataclass(frozen=True, slots=True)
class Insert(TableStatement):
    """INSERT; it overwrites also by REPLACE WHERE. The query includes WITH … written before INSERT.

    `partition` has the text of the constant by column, None for a column without a value; `options` are those of
    `WITH ('key' = 'value')` behind the name. It `evolves` the schema by WITH SCHEMA EVOLUTION.
    """

    query: str
    overwrites: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: str | None = None
    if_not_exists: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    evolves: bool = False


@dataclass(frozen=True, slots=True)
class Delete(TableStatement):
    """DELETE FROM; conditions use the alias, if there is one. `prefix` is WITH … written before DELETE."""

    alias: str | None = None
    where: str | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Update(TableStatement):
    """UPDATE. Attributes as in Delete; `assignments` are those of SET."""

    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: str | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Truncate(TableStatement):
    """TRUNCATE TABLE. `partition` as in Insert."""

    partition: Mapping[str, str | None] = field(default_factory=dict)


def read_write(cursor: Cursor, prefix: str = "") -> Statement | None:
    """Read INSERT, DELETE, UPDATE, MERGE or TRUNCATE, keywords included; None for another. Raises SqlSyntaxError.

    `prefix` is the WITH … before it, which may also come next.
    """
    if not prefix and cursor.take("WITH"):
        return read_with(cursor)
    reader = next((r for keywords, r in _READERS.items() if cursor.take(*keywords)), None)
    statement = None if reader is None else reader(cursor, prefix)
    if statement is not None and not isinstance(statement, UnsupportedStatement):
        cursor.end()
    return statement


def read_insert(cursor: Cursor, prefix: str = "") -> Statement | None:
    """Read INSERT; None for INSERT OVERWRITE DIRECTORY and names that Spark computes. Raises SqlSyntaxError."""
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    verb = cursor.take_one("INTO", "OVERWRITE")
    if verb is None:
        cursor.fail("INTO or OVERWRITE")
    if cursor.at("DIRECTORY") or cursor.at("LOCAL", "DIRECTORY"):
        return None
    cursor.take("TABLE")
    if cursor.at("IDENTIFIER", "("):
        return None
    name = cursor.name()
    options = write_options(cursor) if cursor.at("WITH", "(") and cursor.take("WITH") else {}
    partition = partition_expressions(cursor) if cursor.take("PARTITION") else {}
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    by_name = cursor.take("BY", "NAME")
    where = None
    if verb == "INTO" and cursor.at("REPLACE") and not partition:
        if not cursor.take("REPLACE", "WHERE"):
            return UnsupportedStatement(
                cursor.sql,
                (name,),
                "INSERT INTO … REPLACE other than REPLACE WHERE",
                "MERGE INTO replaces rows by a condition; INSERT OVERWRITE … PARTITION (…) replaces partitions",
            )
        where = expression(cursor, "SELECT", "VALUES", "TABLE", "FROM", "WITH")
    columns = None if by_name else _column_list(cursor)
    start = cursor.start
    query = cursor.rest()
    if not query:
        cursor.fail("a query, VALUES or TABLE")
    first = Cursor(query)
    if first.take("TABLE"):
        query = "SELECT * FROM " + query[first.start :]  # noqa: S608 - the user's own
    elif first.at("FROM") and _has_keyword(cursor, start, "INSERT"):
        return _several_inserts(cursor)
    return Insert(
        cursor.sql,
        name,
        f"{prefix} {query}" if prefix else query,
        overwrites=verb == "OVERWRITE" or where is not None,
        partition=partition,
        columns=columns,
        by_name=by_name,
        replace_where=where,
        if_not_exists=if_not_exists,
        options=options,
        evolves=evolves,
    )


def _column_list(cursor: Cursor) -> tuple[str, ...] | None:
    """The names in brackets that come next; None when the brackets hold a query, or nothing is in brackets."""
    if not cursor.at("("):
        return None
    following = [t.keyword for t in cursor.tokens[cursor.index + 1 : cursor.index + 3]]
    queries = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
    if following[:1] and following[0] in queries and following[1:] not in ([","], [")"]):
        return None
    names = cursor.parenthesised_list(lambda: column_path(cursor))
    if any(len(n) > 1 for n in names):
        cursor.fail("names of columns without the table's")
    return tuple(n[0] for n in names)


def read_with(cursor: Cursor) -> Statement | None:
    """Read WITH … INSERT, DELETE, UPDATE or MERGE; None for WITH … SELECT, a query. Raises SqlSyntaxError."""
    index = _find_keyword(cursor, 0, "INSERT", "DELETE", "UPDATE", "MERGE", "SELECT", "VALUES", "FROM", "TABLE")
    if index is None:
        return None
    cursor.index = index
    if cursor.at("FROM"):
        return read_from(cursor)
    return read_write(cursor, cursor.sql[: cursor.start].strip())


def read_from(cursor: Cursor) -> Statement | None:
    """Read FROM … INSERT …; None for FROM … SELECT, a query. Several INSERTs are not supported."""
    index = _find_keyword(cursor, 0, "INSERT")
    if index is None:
        return None
    if _find_keyword(cursor, index + 1, "INSERT") is not None:
        return _several_inserts(cursor)
    cursor.index = index
    prefix = cursor.sql[: cursor.start].strip()
    cursor.expect("INSERT")
    return read_insert(cursor, prefix)


def read_delete(cursor: Cursor, prefix: str = "") -> Delete:
    """Read DELETE FROM. Raises SqlSyntaxError."""
    cursor.expect("FROM")
    return Delete(cursor.sql, cursor.name(), _alias(cursor, "WHERE"), _where(cursor), prefix)


def read_update(cursor: Cursor, prefix: str = "") -> Update:
    """Read UPDATE … SET. Raises SqlSyntaxError."""
    name = cursor.name()
    alias = _alias(cursor, "SET")
    cursor.expect("SET")
    found = assignments(cursor, "WHERE")
    return Update(cursor.sql, name, found, alias, _where(cursor), prefix)


def _alias(cursor: Cursor, keyword: str) -> str | None:
    """Read an alias, with AS or without, unless `keyword` comes next. Raises SqlSyntaxError."""
    if cursor.take("AS"):
        return cursor.identifier("an alias")
    return None if cursor.at_end or cursor.at(keyword) else cursor.identifier("an alias")


def _where(cursor: Cursor) -> str | None:
    return expression(cursor) if cursor.take("WHERE") else None


def read_truncate(cursor: Cursor, _prefix: str = "") -> Truncate:
    """Read TRUNCATE TABLE. Raises SqlSyntaxError."""
    name = cursor.name()
    partition = complete_partition_expressions(cursor) if cursor.take("PARTITION") else {}
    return Truncate(cursor.sql, name, partition)


def read_copy(cursor: Cursor) -> UnsupportedStatement:
    """Read COPY INTO, which is not supported. Raises SqlSyntaxError."""
    if cursor.at_text:
        instead = (
            "Write files with catalog.sql('SELECT …').write.format('csv').option('header', True).save(path); also "
            "json, parquet"
        )
        return UnsupportedStatement(cursor.sql, (), "COPY INTO", instead)
    name = cursor.name()
    table = ".".join(map(quoted_if_needed, name))
    cursor.take("FROM")
    token = cursor.token
    path = token.text if token is not None and token.is_text else "path"
    into = f"INSERT INTO {table}"
    instead = (
        f"{into} BY NAME SELECT … FROM parquet.`{path}` does it, as does {into} SELECT … FROM csv.`{path}`, read_files "  # noqa: S608 - shown, not run
        "or a temporary view: CREATE TEMPORARY VIEW v (…) USING csv OPTIONS (path '…', header 'true', sep '|', "
        "nullValue '', pathGlobFilter '*.csv', mode 'FAILFAST')"
    )
    return UnsupportedStatement(cursor.sql, (name,), "COPY INTO", instead, may_be_missing=True)


def read_load(cursor: Cursor) -> UnsupportedStatement | None:
    """Read LOAD DATA … INTO TABLE, which is not supported for tables of the catalog."""
    index = _find_keyword(cursor, 0, "TABLE")
    if index is None:
        return None
    cursor.index = index + 1
    instead = "INSERT INTO t SELECT … FROM parquet.`path` reads files and writes rows"
    return UnsupportedStatement(cursor.sql, (cursor.name(),), "LOAD DATA", instead)


def _several_inserts(cursor: Cursor) -> UnsupportedStatement:
    """Several INSERTs with one FROM: the tables that they write."""
    names: list[Name] = []
    start = 0
    while (index := _find_keyword(cursor, start, "INSERT")) is not None:
        cursor.index = index + 1
        if cursor.take_one("INTO", "OVERWRITE") is not None and not cursor.at("DIRECTORY"):
            cursor.take("TABLE")
            names.append(cursor.name())
        start = max(cursor.index, index + 1)
    instead = "They would be several commits, of which some may fail: write one INSERT … SELECT for each table"
    return UnsupportedStatement(cursor.sql, tuple(names), "several INSERTs of one FROM", instead)


def _has_keyword(cursor: Cursor, start: int, keyword: str) -> bool:
    """Whether a keyword stands outside brackets, from position `start` of the text on."""
    first = next((i for i, t in enumerate(cursor.tokens) if t.start >= start), len(cursor.tokens))
    return _find_keyword(cursor, first, keyword) is not None


def _find_keyword(cursor: Cursor, start: int, *keywords: str) -> int | None:
    """The index of the first of `keywords` outside brackets, from token `start` on."""
    tokens = cursor.tokens
    for index in outside_brackets(tokens, start):
        if tokens[index].keyword in keywords and (index == 0 or tokens[index - 1].keyword != "."):
            return index
    return None


@dataclass(frozen=True, slots=True)
class WhenClause:
    """WHEN … AND condition THEN …; `assignments` of None means `*`, or DELETE."""

    when: When
    verb: Verb
    condition: str | None = None
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True)
class Merge(TableStatement):
    """MERGE INTO. Aliases are the names that conditions use; None without one.

    `source` is what follows USING, a table or a query with its alias; `prefix` is WITH … written before MERGE. It
    `evolves` the schema by WITH SCHEMA EVOLUTION.
    """

    alias: str | None
    source: str
    source_alias: str | None
    condition: str
    clauses: tuple[WhenClause, ...]
    prefix: str = ""
    evolves: bool = False


def read_merge(cursor: Cursor, prefix: str = "") -> Statement:
    """Read MERGE INTO. Raises SqlSyntaxError."""
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    cursor.take("TABLE")
    name = cursor.name()
    alias = None
    if not cursor.at("USING"):
        cursor.take("AS")
        alias = cursor.identifier("an alias, or USING")
    cursor.expect("USING")
    first = cursor.index
    source = expression(cursor, "ON")
    source_alias = _visible_name(cursor.tokens[first : cursor.index])
    cursor.expect("ON")
    condition = expression(cursor, "WHEN")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_when_clause(cursor))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    cursor.end()
    _check_conditions(cursor, clauses)
    return Merge(cursor.sql, name, alias, source, source_alias, condition, tuple(clauses), prefix, evolves)


def _when_clause(cursor: Cursor) -> WhenClause:
    when = When.MATCHED
    if cursor.take("NOT", "MATCHED"):
        when = When.NOT_MATCHED
        if cursor.take("BY", "SOURCE"):
            when = When.NOT_MATCHED_BY_SOURCE
        else:
            cursor.take("BY", "TARGET")
    else:
        cursor.expect("MATCHED")
    condition = expression(cursor, "THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if when is When.NOT_MATCHED:
        cursor.expect("INSERT")
        return WhenClause(when, Verb.INSERT, condition, _insert_action(cursor))
    if cursor.take("DELETE"):
        return WhenClause(when, Verb.DELETE, condition)
    cursor.expect("UPDATE", "SET")
    if when is When.MATCHED and cursor.take("*"):
        return WhenClause(when, Verb.UPDATE, condition)
    return WhenClause(when, Verb.UPDATE, condition, assignments(cursor, "WHEN"))


def _insert_action(cursor: Cursor) -> tuple[Assignment, ...] | None:
    if cursor.take("*"):
        return None
    columns = cursor.parenthesised_list(lambda: column_path(cursor))
    cursor.expect("VALUES")
    values = cursor.parenthesised_list(lambda: expression(cursor, ","))
    if len(columns) != len(values):
        cursor.fail(f"{len(columns)} values for the named columns instead of {len(values)}")
    return tuple(map(Assignment, columns, values))


def _check_conditions(cursor: Cursor, clauses: Sequence[WhenClause]) -> None:
    """Only the last clause of each kind may lack a condition: clauses behind it would never apply."""
    for when in When:
        of_kind = [c for c in clauses if c.when is when]
        if any(c.condition is None for c in of_kind[:-1]):
            cursor.fail(f"a condition in every WHEN {when.value.upper()} but the last: the others would never apply")


def _visible_name(tokens: Sequence[Token]) -> str | None:
    """The name of a relation in conditions: its alias, or the last part of its name; None when it has neither."""
    last = tokens[-1]
    if last.keyword == ")":
        return _alias_before_columns(tokens)
    if len(tokens) > 1 and last.is_name and not last.is_number and tokens[-2].keyword not in (".", "$", "OF"):
        return last.text
    name = ""
    for i, token in enumerate(tokens):
        if i % 2 == 0 and token.is_name:
            name += token.text
        elif token.keyword == ".":
            name = ""
        elif token.keyword == "$":
            name += "$"
        else:
            break
    return name or None


def _alias_before_columns(tokens: Sequence[Token]) -> str | None:
    """The alias of `… alias (a, b)`; None when the brackets at the end are not a list of columns."""
    index = matching_bracket(tokens, len(tokens) - 1)
    if index is None or index < 2 or not tokens[index - 1].is_name or tokens[index - 2].keyword == ".":
        return None
    # WITH (…) holds options of a table.
    return _visible_name(tokens[: index - 1]) if tokens[index - 1].keyword == "WITH" else tokens[index - 1].text


_READERS: Final[Mapping[tuple[str, ...], Callable[[Cursor, str], Statement | None]]] = {
    ("INSERT",): read_insert,
    ("DELETE",): read_delete,
    ("UPDATE",): read_update,
    ("MERGE",): read_merge,
    ("TRUNCATE", "TABLE"): read_truncate,
}
