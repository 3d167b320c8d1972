"""The tables of the catalog that a statement reads, each with its place.

Names of common table expressions, aliases, functions and lateral views are no tables; temporary views and all other
names are Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from sqlglot import exp

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.sql.functions import INCREMENTAL_FUNCTIONS
from paimon_spark.sql.functions import refuse as refuse_function
from paimon_spark.sql.names import TableName, resolve_source
from paimon_spark.sql.queries.clauses import Settings, Version
from paimon_spark.sql.queries.errors import syntax_error
from paimon_spark.sql.queries.parse import Reading, Tree, Use
from paimon_spark.sql.session import Session
from paimon_spark.sql.tokens import Token, abbreviated, closing_bracket

_SAMPLE: Final = "TABLESAMPLE"
_BEFORE_NAME: Final = frozenset(("FROM", "JOIN", "TABLE", "USING", "INTO", ","))


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A place in a statement where a table of the catalog is read.

    Attributes:
        name: the table; of a function, a name that only says the function.
        node: sqlglot's, with the alias.
        start: of the name in the text.
        end: after it.
        version: after the name.
        settings: options after the name.
        sample: text of its TABLESAMPLE, empty without.
        written_end: after name, version, options and sample: an alias comes next.
        function: the table function's name; None for a table.
    """

    name: TableName
    node: Tree
    start: int
    end: int
    version: Version | None = None
    settings: Settings | None = None
    sample: tuple[int, int] | None = None
    function: str | None = None

    @property
    def cut_end(self) -> int:
        """After what the DataFrame stands for: name, version, options."""
        return max(self.end, *(c.end for c in (self.version, self.settings) if c is not None), self.end)

    @property
    def written_end(self) -> int:
        """Where an alias can stand: after the sample too."""
        return self.cut_end if self.sample is None else self.sample[1]

    @property
    def alias(self) -> str:
        """The alias that is written; empty without."""
        return str(self.node.alias)

    @property
    def visible(self) -> str:
        """What columns of it are qualified with."""
        if self.alias or self.function is not None:
            return self.alias or str(self.function)
        return unqualified(self.name)

    @property
    def has_new_columns(self) -> bool:
        """Whether the alias names its columns anew."""
        alias = self.node.args.get("alias")
        return alias is not None and bool(alias.args.get("columns"))


def unqualified(name: TableName) -> str:
    """The last part of a table's name, as written."""
    branch = "" if name.branch is None else f"$branch_{name.branch}"
    return name.table + branch + ("" if name.system is None else f"${name.system}")


def references(session: Session, reading: Reading) -> tuple[Reference, ...]:
    """The places where a statement reads tables of the catalog, in their order.

    Raises:
        UnsupportedFeatureError: it names one in syntax that is not understood, or calls a function that searches.
        InvalidOptionError: what follows `$` is no branch and no system table.
    """
    _refuse_functions(reading)
    if reading.trees is None:
        _refuse_tables(session, reading)
        return ()
    found: dict[int, Reference] = {}
    for tree in reading.trees:
        for node in tree.find_all(exp.Table):
            reference = _reference(session, reading, node)
            if reference is not None and reference.start not in found:
                found[reference.start] = reference
    _check_all_found(session, reading, found)
    return tuple(found[start] for start in sorted(found))


def _reference(session: Session, reading: Reading, node: Tree) -> Reference | None:
    if not isinstance(node.this, exp.Identifier):
        return _function(reading, node)
    identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
    parts = [reading.name_at(i) for i in identifiers]
    if len(parts) != len(node.parts) or _is_cte(node) or parts == ["$"]:
        return None
    if reading.has_pipes and len(parts) == 1 and parts[0].lower() in _all_ctes(reading):
        return None
    name = resolve_source(session, parts)
    if name is None:
        return None
    if _is_written(node):
        raise UnsupportedFeatureError(
            f"the statement writes {name} in a form that is not supported: {abbreviated(reading.sql)}; write one table "
            f"at a time, with the query at the end: INSERT INTO {name} WITH … SELECT …",
            feature="INSERT after WITH or FROM",
            table=str(name),
        )
    if any("start" not in i.meta for i in identifiers):
        refuse(reading, name, "the place of its name is not known")
    start, end = identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1
    return _placed(reading, name, node, start, end, None)


def _function(reading: Reading, node: Tree) -> Reference | None:
    """A table function of Paimon."""
    called = str(node.this.name).lower() if isinstance(node.this, exp.Anonymous) else ""
    if called not in INCREMENTAL_FUNCTIONS:
        return None
    start = node.this.meta["start"]
    at = next(i for i, w in enumerate(reading.tokens) if w.start == start)
    end = closing_bracket(reading.tokens, at + 1)
    assert end is not None, "sqlglot read the call"
    return _placed(reading, TableName("", called), node, start, reading.tokens[end].end, called)


def _placed(reading: Reading, name: TableName, node: Tree, start: int, end: int, function: str | None) -> Reference:
    version = next((v for v in reading.versions if _follows(reading, end, v.start)), None)
    at = end if version is None else version.end
    given = next((s for s in reading.settings if _follows(reading, at, s.start)), None)
    at = at if given is None else given.end
    return Reference(name, node, start, end, version, given, _sample(reading.tokens, at), function)


def _follows(reading: Reading, end: int, start: int) -> bool:
    """Whether nothing but blanks and comments is between two places."""
    return start >= end and not any(end <= w.start < start for w in reading.tokens)


def _sample(tokens: Sequence[Token], end: int) -> tuple[int, int] | None:
    """The place of the TABLESAMPLE that comes next."""
    at = next((i for i, w in enumerate(tokens) if w.start >= end), len(tokens))
    if at >= len(tokens) or tokens[at].keyword != _SAMPLE:
        return None
    last = closing_bracket(tokens, at + 1)
    if last is not None and last + 1 < len(tokens) and tokens[last + 1].keyword == "REPEATABLE":
        last = closing_bracket(tokens, last + 2)
    return None if last is None else (tokens[at].start, tokens[last].end)


def _is_cte(node: Tree) -> bool:
    """Whether a name of one part is that of a common table expression around it."""
    if len(node.parts) != 1:
        return False
    name, inner, around = node.name.lower(), node, node.parent
    while around is not None:
        with_ = around.args.get("with_") or around.args.get("with")
        if with_ is not None:
            for cte in with_.expressions:
                if cte is inner.parent or _is_inside(node, cte):
                    if with_.args.get("recursive") and cte.alias.lower() == name:
                        return True
                    break  # a later one is not visible in an earlier one
                if cte.alias.lower() == name:
                    return True
        inner, around = around, around.parent
    return False


def _all_ctes(reading: Reading) -> set[str]:
    """Names of common table expressions, which the pieces between pipes do not show."""
    return {cte.alias.lower() for tree in reading.trees or () for cte in tree.find_all(exp.CTE)}


def _is_inside(node: Tree, ancestor: Tree) -> bool:
    while node is not None:
        if node is ancestor:
            return True
        node = node.parent
    return False


def _is_written(node: Tree) -> bool:
    """Whether it is the target of a statement and not read."""
    parent = node.parent
    if isinstance(parent, exp.Schema):
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Insert | exp.Create | exp.Cache) and parent.this is node


def refuse(reading: Reading, name: TableName | str, why: str) -> NoReturn:
    """Raise UnsupportedFeatureError for a table that cannot be put in."""
    raise UnsupportedFeatureError(
        f"the statement names the Paimon table {name}, but {why}: {abbreviated(reading.sql)}; make a "
        "temporary view of it first, with CREATE TEMPORARY VIEW or catalog.table(…).scan().to_spark()"
        ".createOrReplaceTempView(…), and name that in the statement",
        feature="SQL syntax",
        table=str(name),
    )


def _refuse_functions(reading: Reading) -> None:
    """Refuse functions of Paimon's that search, by their tokens: sqlglot has its own ideas of some."""
    for before, word, after in zip(reading.tokens, reading.tokens[1:], reading.tokens[2:], strict=False):
        if before.keyword in _BEFORE_NAME and word.is_name and after.keyword == "(":
            refuse_function(word.text)


def _refuse_tables(session: Session, reading: Reading) -> None:
    """Refuse tables of the catalog in a statement that is not understood."""
    for _, name in _names(session, reading, ()):
        error = syntax_error(session, reading)
        if error is not None:
            raise error
        if reading.head.use is Use.OTHER:
            refuse(reading, name, "Spark runs such a statement from its text, and does not know the table")
        refuse(reading, name, "its syntax is not understood here")


def _check_all_found(session: Session, reading: Reading, found: dict[int, Reference]) -> None:
    """Check that no table stands where sqlglot saw none."""
    taken = [(r.start, r.cut_end) for r in found.values()]
    for word, name in _names(session, reading, taken):
        is_unknown = reading.tokens[word].start not in found and not _is_known(reading, word)
        if is_unknown and _is_of_a_from(reading.tokens, word):
            refuse(reading, name, "its syntax is not understood here")


def _is_of_a_from(tokens: Sequence[Token], word: int) -> bool:
    """Whether a name stands where it can only be a table's: not as in `extract(day FROM a)`, `a IS DISTINCT FROM b`."""
    before = [w.keyword for w in tokens[max(0, word - 2) : word]]
    if before[-1:] == ["("]:
        return before == ["TABLE", "("]  # the argument of a function
    if before[-1:] == ["FROM"]:
        return before[0] != "DISTINCT" and word + 1 < len(tokens) and tokens[word + 1].keyword == "."
    return before[-1:] in (["JOIN"], ["TABLE"])


def _is_known(reading: Reading, word: int) -> bool:
    """Whether sqlglot read this word as the name of a table, which is then another's."""
    place = reading.tokens[word].start
    return any(
        any(part.meta.get("start") == place for part in node.parts if isinstance(part, exp.Identifier))
        for tree in reading.trees or ()
        for node in tree.find_all(exp.Table)
    )


def _names(session: Session, reading: Reading, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, TableName]]:
    """Names of tables of the catalog that may stand where tables are read, by their words alone."""
    for i, parts in _dotted(reading.tokens):
        word = reading.tokens[i]
        if any(start <= word.start < end for start, end in taken):
            continue
        before = reading.tokens[i - 1].keyword if i else ""
        if len(parts) == 1 and before not in _BEFORE_NAME:
            continue
        name = _existing(session, parts)
        if name is not None:
            yield i, name


def _dotted(tokens: Sequence[Token]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Names of up to three parts, each with the index of its first word."""
    i = 0
    while i < len(tokens):
        if not tokens[i].is_name or tokens[i].is_number or (i and tokens[i - 1].keyword == "."):
            i += 1
            continue
        parts, at = [tokens[i].text], i
        while True:
            while at + 2 < len(tokens) and tokens[at + 1].keyword == "$":
                parts[-1] += "$" + tokens[at + 2].text
                at += 2
            if not (at + 2 < len(tokens) and tokens[at + 1].keyword == "." and tokens[at + 2].is_name):
                break
            parts.append(tokens[at + 2].text)
            at += 2
        yield i, tuple(parts)
        i = at + 1


def _existing(session: Session, parts: Sequence[str]) -> TableName | None:
    try:
        name = resolve_source(session, parts)
    except InvalidOptionError:
        return None
    return name if name is not None and session.has_table(name.database, name.table) else None


def ancestors(node: Any) -> Iterator[Any]:
    """What a node of a tree is in, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node
