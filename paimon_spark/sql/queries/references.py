"""Find the tables of the catalog that a query reads, with their positions in the text.

Names of common table expressions, aliases, functions and lateral views are not tables; temporary views and all other
names are Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from sqlglot import exp

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.functions import TABLE_FUNCTIONS, refuse_search
from paimon_spark.sql.names import TableName, resolve_source
from paimon_spark.sql.queries.clauses import OptionClause, VersionClause
from paimon_spark.sql.queries.errors import syntax_error
from paimon_spark.sql.queries.parse import ParsedQuery, Tree, Use
from paimon_spark.sql.session import Session
from paimon_spark.sql.tokens import abbreviated, matching_bracket

_SAMPLE: Final = "TABLESAMPLE"
_BEFORE_NAME: Final = frozenset(("FROM", "JOIN", "TABLE", "USING", "INTO", ","))


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A table or table function of the catalog in a query, its position in the text, and the clauses behind it.

    Attributes:
        session: of the catalog that has the table.
        node: sqlglot's, with the alias.
        sample: position of its TABLESAMPLE; None without.
        function: name of the table function; None for a table.
    """

    session: Session = field(repr=False)
    name: TableName
    node: Tree
    start: int
    end: int
    version: VersionClause | None = None
    options: OptionClause | None = None
    sample: tuple[int, int] | None = None
    function: str | None = None

    @property
    def cut_end(self) -> int:
        """Position after what the DataFrame replaces: name, version, options."""
        return max(self.end, *(c.end for c in (self.version, self.options) if c is not None), self.end)

    @property
    def full_name(self) -> tuple[str, str, str]:
        """The parts of the name: catalog, database, table with its suffix."""
        return self.session.catalog_name, self.name.database, self.name.as_named.last_part

    @property
    def alias(self) -> str:
        """The alias; empty without."""
        return str(self.node.alias)

    @property
    def visible(self) -> str:
        """The qualifier of its columns."""
        if self.alias or self.function is not None:
            return self.alias or str(self.function)
        return self.name.as_named.last_part

    @property
    def has_new_columns(self) -> bool:
        """Whether the alias renames the columns."""
        alias = self.node.args.get("alias")
        return alias is not None and bool(alias.args.get("columns"))


def references(session: Session, parsed: ParsedQuery) -> tuple[Reference, ...]:
    """The tables of the catalog, and of others attached beside it, that a query reads, in their order.

    Raises:
        UnsupportedFeatureError: a table in syntax that cannot be parsed, or a search function.
        InvalidOptionError: what follows `$` is neither a branch nor a system table.
    """
    _refuse_functions(parsed)
    sessions = _caching(session)
    if parsed.trees is None:
        _refuse_tables(sessions, parsed)
        return ()
    found: dict[int, Reference] = {}
    for tree in parsed.trees:
        for node in tree.find_all(exp.Table):
            reference = _reference(sessions, parsed, node)
            if reference is not None and reference.start not in found:
                found[reference.start] = reference
    _check_all_found(sessions, parsed, found)
    return tuple(found[start] for start in sorted(found))


def _caching(session: Session) -> tuple[Session, ...]:
    """The sessions of all catalogs that are attached, each of which looks up a name only once."""
    return tuple(s if s.seen is not None else s.caching() for s in session.each())


def _resolved(sessions: Sequence[Session], parts: Sequence[str]) -> tuple[Session, TableName] | None:
    """The table that a name means, and the session of its catalog; None when it is Spark's."""
    for session in sessions:
        name = resolve_source(session, parts)
        if name is not None:
            return session, name
    return None


def _reference(sessions: Sequence[Session], parsed: ParsedQuery, node: Tree) -> Reference | None:
    if not isinstance(node.this, exp.Identifier | exp.Dot):  # a Dot is a name of more than three parts
        return _function(sessions[0], parsed, node)
    identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
    parts = [parsed.name_at(i) for i in identifiers]
    if len(parts) != len(node.parts) or is_cte(node) or parts == ["$"]:
        return None
    if parsed.has_pipes and len(parts) == 1 and parts[0].lower() in _all_ctes(parsed):
        return None
    resolved = _resolved(sessions, parts)
    if resolved is None:
        return None
    session, name = resolved
    if _is_written(node):
        raise UnsupportedFeatureError(
            f"the statement writes {name} in a form that is not supported: {abbreviated(parsed.sql)}; write one table "
            f"at a time, with the query at the end: INSERT INTO {name} WITH … SELECT …",
            feature="INSERT after WITH or FROM",
            table=str(name),
        )
    if any("start" not in i.meta for i in identifiers):
        refuse_table(parsed, name, "the position of its name is unknown")
    start, end = identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1
    return _placed(parsed, session, name, node, start, end, None)


def _function(session: Session, parsed: ParsedQuery, node: Tree) -> Reference | None:
    """A table function of Paimon."""
    called = str(node.this.name).lower() if isinstance(node.this, exp.Anonymous) else ""
    if called not in TABLE_FUNCTIONS:
        return None
    start = node.this.meta["start"]
    at = next(i for i, w in enumerate(parsed.tokens) if w.start == start)
    end = matching_bracket(parsed.tokens, at + 1)
    assert end is not None, "sqlglot read the call"
    return _placed(parsed, session, TableName("", called), node, start, parsed.tokens[end].end, called)


def _placed(
    parsed: ParsedQuery, session: Session, name: TableName, node: Tree, start: int, end: int, function: str | None
) -> Reference:
    version: VersionClause | None = None
    given: OptionClause | None = None
    at = end
    for _ in range(2):  # a version and options, in any order
        if version is None:
            version = next((v for v in parsed.versions if _follows(parsed, at, v.start)), None)
            at = at if version is None else max(at, version.end)
        if given is None:
            given = next((o for o in parsed.options if _follows(parsed, at, o.start)), None)
            at = at if given is None else max(at, given.end)
    return Reference(session, name, node, start, end, version, given, _sample(parsed.tokens, at), function)


def _follows(parsed: ParsedQuery, end: int, start: int) -> bool:
    """Whether nothing but blanks and comments is between two places."""
    return start >= end and not any(end <= w.start < start for w in parsed.tokens)


def _sample(tokens: Sequence[Token], end: int) -> tuple[int, int] | None:
    """The position of the TABLESAMPLE that comes next."""
    at = next((i for i, w in enumerate(tokens) if w.start >= end), len(tokens))
    if at >= len(tokens) or tokens[at].keyword != _SAMPLE:
        return None
    last = matching_bracket(tokens, at + 1)
    if last is not None and last + 1 < len(tokens) and tokens[last + 1].keyword == "REPEATABLE":
        last = matching_bracket(tokens, last + 2)
    return None if last is None else (tokens[at].start, tokens[last].end)


def is_cte(node: Tree) -> bool:
    """Whether a name of one part is that of a common table expression around it."""
    if len(node.parts) != 1:
        return False
    name, around = node.name.lower(), list(ancestors(node))
    for outer in around:
        with_ = outer.args.get("with_") or outer.args.get("with")
        for cte in () if with_ is None else with_.expressions:
            if any(a is cte for a in around):
                if with_.args.get("recursive") and cte.alias.lower() == name:
                    return True
                break  # a later one is not visible in an earlier one
            if cte.alias.lower() == name:
                return True
    return False


def _all_ctes(parsed: ParsedQuery) -> set[str]:
    """Names of common table expressions, which parts between pipes may use."""
    return {cte.alias.lower() for tree in parsed.trees or () for cte in tree.find_all(exp.CTE)}


def _is_written(node: Tree) -> bool:
    """Whether a table is the target of the statement and not read."""
    parent = node.parent
    if isinstance(parent, exp.Schema):
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Insert | exp.Create | exp.Cache) and parent.this is node


def refuse_table(parsed: ParsedQuery, name: TableName | str, why: str) -> NoReturn:
    """Raise UnsupportedFeatureError for a table that no DataFrame can replace."""
    raise UnsupportedFeatureError(
        f"the statement names the Paimon table {name}, but {why}: {abbreviated(parsed.sql)}; create a "
        "temporary view of it first, with CREATE TEMPORARY VIEW or catalog.table(…).scan().to_spark()"
        ".createOrReplaceTempView(…), and name that in the statement",
        feature="SQL syntax",
        table=str(name),
    )


def _refuse_functions(parsed: ParsedQuery) -> None:
    """Refuse search functions of Paimon, by tokens, as sqlglot parses some of them differently."""
    for before, word, after in zip(parsed.tokens, parsed.tokens[1:], parsed.tokens[2:], strict=False):
        if before.keyword in _BEFORE_NAME and word.is_name and after.keyword == "(":
            refuse_search(word.text)


def _refuse_tables(sessions: Sequence[Session], parsed: ParsedQuery) -> None:
    """Refuse tables of the catalog in a statement that cannot be parsed."""
    for _, name in _names(sessions, parsed, ()):
        error = syntax_error(sessions[0], parsed)
        if error is not None:
            raise error
        if parsed.use is Use.OTHER:
            refuse_table(parsed, name, "Spark runs this statement from its text and does not know the table")
        refuse_table(parsed, name, "its syntax is not supported")


def _check_all_found(sessions: Sequence[Session], parsed: ParsedQuery, found: dict[int, Reference]) -> None:
    """Check that no table was missed by sqlglot."""
    taken = [(r.start, r.cut_end) for r in found.values()]
    for word, name in _names(sessions, parsed, taken):
        is_unknown = parsed.tokens[word].start not in found and not _is_known(parsed, word)
        if is_unknown and _is_of_a_from(parsed.tokens, word):
            refuse_table(parsed, name, "its syntax is not supported")


def _is_of_a_from(tokens: Sequence[Token], word: int) -> bool:
    """Whether a name can only be a table's, unlike in `extract(day FROM a)` and `a IS DISTINCT FROM b`."""
    before = [w.keyword for w in tokens[max(0, word - 2) : word]]
    if before[-1:] == ["("]:
        return before == ["TABLE", "("]  # the argument of a function
    if before[-1:] == ["FROM"]:
        return before[0] != "DISTINCT" and word + 1 < len(tokens) and tokens[word + 1].keyword == "."
    return before[-1:] in (["JOIN"], ["TABLE"])


def _is_known(parsed: ParsedQuery, word: int) -> bool:
    """Whether sqlglot parsed this token as the name of a table, which is then Spark's."""
    place = parsed.tokens[word].start
    return any(
        any(part.meta.get("start") == place for part in node.parts if isinstance(part, exp.Identifier))
        for tree in parsed.trees or ()
        for node in tree.find_all(exp.Table)
    )


def _names(
    sessions: Sequence[Session], parsed: ParsedQuery, taken: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, TableName]]:
    """Names of tables of the catalog where a table may be read, by tokens only."""
    for i, parts in _dotted(parsed.tokens):
        word = parsed.tokens[i]
        if any(start <= word.start < end for start, end in taken):
            continue
        before = parsed.tokens[i - 1].keyword if i else ""
        if len(parts) == 1 and before not in _BEFORE_NAME:
            continue
        name = _existing(sessions, parts)
        if name is not None:
            yield i, name


def _dotted(tokens: Sequence[Token]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Names of up to three parts, with the index of the first token."""
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


def _existing(sessions: Sequence[Session], parts: Sequence[str]) -> TableName | None:
    try:
        found = _resolved(sessions, parts)
    except InvalidOptionError:
        return None
    if found is None:
        return None
    session, name = found
    return name if session.has_table(name.database, name.table) else None


def ancestors(node: Any) -> Iterator[Any]:
    """The nodes around a node, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node
