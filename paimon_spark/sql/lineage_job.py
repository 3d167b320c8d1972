"""The lineage job of a statement, named by its target and the shape of its text.

A statement that runs each day with other literals is one job. Two statements of one Spark application are two jobs:
what one reads is not a source of what the other writes.

Source: own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paimon_spark.lineage.index.provenance import StatementRecord, TableRef, encode_statement
from paimon_spark.lineage.index.warehouse import short_digest
from paimon_spark.metadata.layout import MAIN
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.lineage import BARRIER, JOB, STATEMENT, STATEMENT_VALUES, UNKNOWN_SOURCES
from paimon_spark.predicate.tokens import Token
from paimon_spark.redaction import is_secret, without_passwords
from paimon_spark.sql.session import SETTING, Session
from paimon_spark.sql.tokens import outside_brackets, tokenize

if TYPE_CHECKING:
    from paimon_spark.options.location import TableName

_DIGITS: Final = 8
_OF_A_RUN: Final = (f".{JOB.key}", f".{BARRIER.key}")
_VERBS: Final = ("INSERT", "DELETE", "UPDATE", "MERGE", "TRUNCATE", "CREATE", "REPLACE")
_CONSTANTS: Final = ("TRUE", "FALSE", "NULL")
_READING: Final = frozenset(("FROM", "TABLE", "JOIN", "USING"))
"""Words before the name of a table that is read."""
_READ: Final = frozenset(
    ("SELECT", "WHERE", "ON", "GROUP", "HAVING", "ORDER", "LIMIT", "SET", "WHEN", "VALUES", "WINDOW")
)
"""Words after which a comma separates no tables."""
_BEFORE_RELATION: Final = ("FROM", "TABLE", "JOIN", "LATERAL", ",", "(")
_WITH_FROM: Final = ("EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY")
"""Functions with FROM among their arguments."""
_TABLE_FUNCTIONS: Final = frozenset(
    (
        "range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack",
        "json_tuple",
    )
)  # fmt: skip
"""Functions of Spark that return rows and read no table."""
_BEFORE_A_SIGN: Final = frozenset(
    (
        "SELECT", "DISTINCT", "VALUES", "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "BETWEEN", "IN", "LIKE", "CASE",
        "WHEN", "THEN", "ELSE", "BY", "LIMIT", "OFFSET", "OF", "DEFAULT",
    )
)  # fmt: skip
"""Words after which + and - are the sign of a number."""
_DOTTED: Final = re.compile(r"\w+(?:[.-][\w-]+)+")
_ANY: Final = "?"
"""Stands for every literal and every parameter."""


def with_lineage_job(
    session: Session,
    name: TableName,
    sql: str,
    branch: str | None = None,
    options: Mapping[str, str] | None = None,
    bound: str | None = None,
) -> Session:
    """The session with the lineage job and the barrier of a run, for the reads and the write of a statement.

    A job or barrier that the user sets is kept: by an option of the statement, else of the Spark session, else of the
    catalog. Returns the same session when the warehouse does not record lineage.

    `name` is the table that the statement writes, on its branch or `branch`; `sql` is the statement as it was given,
    with its parameters, `bound` with their values, as its snapshot keeps it; None: it cannot be run again. Nor is a
    statement kept that has a secret: an option that opens a store, or the password of a URL.
    """
    from paimon_spark.api.lineage_question import warehouse_of
    from paimon_spark.lineage.recording.batch_recording import next_barrier

    if not session.catalog.lineage.is_enabled:
        return session
    given = {**session.catalog.options, **session.settings_of(name), **(options or {})}
    ref = TableRef.of(name.database, name.table, branch or name.branch or MAIN)
    job = given.get(JOB.key) or statement_job(ref, sql)
    barrier = given.get(BARRIER.key)
    if barrier is None:
        drawn = next_barrier(warehouse_of(session.catalog), ref, job)
        barrier = None if drawn is None else str(drawn)
    run = {JOB.key: job} | ({} if barrier is None else {BARRIER.key: barrier})
    if _names_a_view(session, sql):
        run[UNKNOWN_SOURCES.key] = "true"
    if bound is not None and STATEMENT.key not in given and not has_secret(bound):
        lacks_values = bound != sql and not STATEMENT_VALUES.get(given)
        kept = StatementRecord(sql if lacks_values else bound, session.catalog_name, session.database)
        text = encode_statement(replace(kept, lacks_values=lacks_values))
        run |= {} if text is None else {STATEMENT.key: text}
    catalog = session.catalog
    conf = {k: v for k, v in session.conf.items() if not is_of_run(k)}
    return replace(session, catalog=replace(catalog, options={**catalog.options, **run}), conf=conf)


def is_of_run(setting: str) -> bool:
    """Whether a setting of a Spark session gives the lineage job or the barrier of its runs."""
    return setting.startswith(SETTING) and setting.endswith(_OF_A_RUN)


def statement_job(target: TableRef, sql: str) -> str:
    """The name of a statement's job: `db.t:insert:1a2b3c4d`, which ends in a digest of the statement's shape.

    It names main also where a session's branch is written: there the statement runs the job of main again.
    """
    return f"{target.on_branch(MAIN).name}:{_verb(tokenize(sql))}:{short_digest(shape(sql), _DIGITS)}"


def shape(sql: str) -> str:
    """A statement without what differs from run to run: literals, parameters, comments, blanks, case, quotes of names.

    Lists of literals count as one literal, and so do lists of rows of them: VALUES (1, 2), (3, 4) is VALUES (5).
    """
    out: list[str] = []
    for piece in _pieces(sql, tokenize(sql)):
        if piece != _ANY:
            out.append(piece)
            if out[-7:] == ["(", _ANY, ")", ",", "(", _ANY, ")"]:
                del out[-4:]
            continue
        for signs in (".", "+-"):
            if out and out[-1] in signs and (len(out) == 1 or not _is_operand(out[-2])):
                out.pop()
        if out[-2:] == [_ANY, ","] and out[-3:-2] in (["("], ["values"]):
            out.pop()
        elif out[-1:] != [_ANY]:
            out.append(_ANY)
    text = ""
    for piece in out:  # releases of the tokenizer differ in which signs they join
        text += f" {piece}" if _is_word(text[-1:]) and _is_word(piece[:1]) else piece
    return text


def has_secret(sql: str) -> bool:
    """Whether a statement has the value of an option that is a secret, or a URL with a password."""
    if without_passwords(sql) != sql or any(is_storage_option(n) and is_secret(n) for n in _DOTTED.findall(sql)):
        return True
    found = tokenize(sql)
    return any(
        key.is_text and sign.keyword == "=" and value.is_text and is_secret(key.text)
        for key, sign, value in zip(found, found[1:], found[2:], strict=False)
    )


def names_no_table(query: str) -> bool:
    """Whether a query certainly reads no table, as VALUES and table functions such as `range` do not."""
    found = tokenize(query)
    known_after = _names_of_with(found)
    reads, calls = [False], [""]
    for index, word in enumerate(found):
        before = found[index - 1].keyword if index else ""
        following = found[index + 1].keyword if index + 1 < len(found) else ""
        begins = reads[-1] and before in _BEFORE_RELATION
        if word.keyword == "(":
            reads.append(begins)
            calls.append(before)
        elif word.keyword == ")":
            reads, calls = reads[:-1] or [False], calls[:-1] or [""]
        elif word.keyword in _READING:
            is_argument = word.keyword == "FROM" and (before == "DISTINCT" or calls[-1] in _WITH_FROM)
            reads[-1] = reads[-1] if is_argument or word.keyword == "USING" else True
        elif word.keyword in _READ and word.keyword != "ON" and following != ",":
            reads[-1] = False
        elif begins and word.keyword != "LATERAL":
            is_function = word.text.lower() in _TABLE_FUNCTIONS and following == "("
            is_own = known_after.get(word.text.lower(), index) < index and following != "."
            if not (is_function or is_own):
                return False
    return True


def _names_of_with(found: Sequence[Token]) -> dict[str, int]:
    """Names that WITH at the beginning of a query defines, in lower case, and the token that ends the definition."""
    if not found or found[0].keyword != "WITH" or any(w.keyword == "WINDOW" for w in found):
        return {}
    names: dict[str, int] = {}
    depth, name = 0, ""
    for index, word in enumerate(found):
        before = found[index - 1].keyword if index else ""
        depth += (word.keyword == "(") - (word.keyword == ")")
        if depth == 0 and word.is_name and before in ("WITH", ","):
            name = word.text.lower()
        elif depth == 0 and word.keyword == ")" and name and _opens_after_as(found, index):
            names[name], name = index, ""
        elif depth == 0 and word.keyword == "SELECT":
            break
    return names


def _opens_after_as(found: Sequence[Token], end: int) -> bool:
    """Whether the bracket that ends at a token begins after AS, as the query of a name does and its columns do not."""
    depth = 0
    for index in range(end, 0, -1):
        depth += (found[index].keyword == ")") - (found[index].keyword == "(")
        if depth == 0:
            return found[index - 1].keyword == "AS"
    return False


def read_names(found: Sequence[Token]) -> set[str]:
    """Names of one part where a statement reads tables, in lower case; it may name columns of USING too."""
    names: set[str] = set()
    reads = [False]
    for index, word in enumerate(found):
        before = found[index - 1].keyword if index else ""
        begins = reads[-1] and (before in _READING or before in (",", "("))
        if word.keyword == "(":
            reads.append(begins)
        elif word.keyword == ")":
            reads = reads[:-1] or [False]
        elif word.keyword in _READING:
            reads[-1] = True
        elif word.keyword in _READ:
            reads[-1] = False
        elif begins and word.is_name and (index + 1 == len(found) or found[index + 1].keyword != "."):
            names.add(word.text.lower())
    return names


def _pieces(sql: str, found: Sequence[Token]) -> Iterator[str]:
    """The tokens of a statement in lower case, literals and parameters as `?`."""
    skipped = -1
    for index, word in enumerate(found):
        before = found[index - 1].keyword if index else ""
        following = found[index + 1] if index + 1 < len(found) else None
        if index == skipped or (word.keyword == ";" and following is None):
            continue
        if _is_literal(sql, word, before):
            yield _ANY
        elif word.keyword == ":" and following is not None and following.start == word.end and following.is_name:
            skipped = index + 1
            yield _ANY
        else:
            yield word.text.lower()


def _is_literal(sql: str, word: Token, before: str) -> bool:
    if word.is_text or word.is_number or word.keyword == _ANY:
        return True
    if word.keyword in _CONSTANTS:
        return before not in ("IS", "NOT", ".")
    written = sql[word.start : word.end]
    return not word.is_quoted and (written[:1].isdigit() or written[1:2] in ("'", '"'))  # 0x1F, X'1F'


def _is_operand(piece: str) -> bool:
    """Whether a + or - after it is an operator and not a sign."""
    return piece in (")", "]", _ANY) or (_is_word(piece[-1:]) and piece.upper() not in _BEFORE_A_SIGN)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _verb(found: Sequence[Token]) -> str:
    keywords = [found[i].keyword for i in outside_brackets(found)]
    at = next((i for i, keyword in enumerate(keywords) if keyword in _VERBS), None)
    if at is None:
        return "write"
    return "overwrite" if keywords[at : at + 2] == ["INSERT", "OVERWRITE"] else keywords[at].lower()


def _names_a_view(session: Session, sql: str) -> bool:
    """Whether a statement reads a temporary view, whose sources are unknown."""
    names = read_names(tokenize(sql))
    # Listing tables makes Spark create its warehouse directory, so it is done only when there may be a view.
    return bool(names) and any(view.lower() in names for view in session.temporary_views())
