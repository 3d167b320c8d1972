"""Find the tables of the catalog that a query reads, with their positions in the text.

Names of common table expressions, aliases, functions and lateral views are not tables; temporary views and all other
names are Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

from sqlglot import exp

from paimon_spark.errors import InvalidOptionError, TableNotFoundError, UnsupportedFeatureError
from paimon_spark.options.location import TableName
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.functions import TABLE_FUNCTIONS, refuse_search
from paimon_spark.sql.names import resolve_source
from paimon_spark.sql.queries.clauses import OptionClause, VersionClause
from paimon_spark.sql.queries.errors import syntax_error
from paimon_spark.sql.queries.parse import ParsedQuery, QueryUse
from paimon_spark.sql.queries.scopes import Tree, written
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
        alias = self.node.args.get("alias")
        return "" if alias is None or alias.this is None else written(alias.this)

    @property
    def visible(self) -> str:
        """The qualifier of its columns."""
        return self.alias or self.function or self.name.as_named.last_part

    @property
    def is_bare(self) -> bool:
        """Whether the name of the table qualifies its columns."""
        return not self.alias and self.function is None

    @property
    def key(self) -> str:
        """The qualifier of its columns in lower case, as scopes have names."""
        return self.visible.lower()

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
    found: dict[int, Reference] = {}
    for tree in parsed.trees or ():
        for node in tree.find_all(exp.Table):
            reference = _reference(sessions, parsed, node)
            if reference is not None:
                found.setdefault(reference.start, reference)
    out = tuple(found[start] for start in sorted(found))
    _refuse_missed(sessions, parsed, out)
    return out


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
    parts = [written(i) for i in identifiers]
    if len(parts) != len(node.parts) or parts == ["$"] or parsed.scopes.is_cte(node):
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
    return _with_clauses(parsed, Reference(session, name, node, start, end))


def _function(session: Session, parsed: ParsedQuery, node: Tree) -> Reference | None:
    """A table function of Paimon."""
    called = str(node.this.name).lower() if isinstance(node.this, exp.Anonymous) else ""
    if called not in TABLE_FUNCTIONS:
        return None
    start = node.this.meta["start"]
    end = matching_bracket(parsed.tokens, _index(parsed.tokens, start) + 1)
    assert end is not None, "sqlglot read the call"
    found = Reference(session, TableName("", called), node, start, parsed.tokens[end].end, function=called)
    return _with_clauses(parsed, found)


def _with_clauses(parsed: ParsedQuery, reference: Reference) -> Reference:
    """The reference with the version, options and sample that follow it, a version and options in any order."""
    versions = {clause.start: clause for clause in parsed.versions}
    options = {clause.start: clause for clause in parsed.options}
    tokens = (*parsed.tokens, Token("", len(parsed.sql), len(parsed.sql)))
    for _ in range(2):
        start = tokens[_index(parsed.tokens, reference.cut_end)].start
        version = reference.version or versions.get(start)
        reference = replace(reference, version=version, options=reference.options or options.get(start))
    at = _index(parsed.tokens, reference.cut_end)
    last = matching_bracket(tokens, at + 1) if tokens[at].keyword == _SAMPLE else None
    if last is not None and tokens[last + 1].keyword == "REPEATABLE":
        last = matching_bracket(tokens, last + 2)
    return reference if last is None else replace(reference, sample=(tokens[at].start, tokens[last].end))


def _index(tokens: Sequence[Token], position: int) -> int:
    """The index of the first token at or after a position."""
    return next((i for i, token in enumerate(tokens) if token.start >= position), len(tokens))


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


def _refuse_missed(sessions: Sequence[Session], parsed: ParsedQuery, found: Sequence[Reference]) -> None:
    """Refuse tables of the catalog, by tokens, that sqlglot did not find or whose statement it cannot parse."""
    known = _positions_of_tables(parsed)
    for i, parts in _dotted(parsed.tokens):
        start = parsed.tokens[i].start
        if start in known or any(r.start <= start < r.cut_end for r in found):
            continue
        is_place = len(parts) > 1 or (i and parsed.tokens[i - 1].keyword in _BEFORE_NAME)
        if not is_place or (parsed.trees is not None and not _is_of_a_from(parsed.tokens, i)):
            continue
        name = _existing(sessions, parts)
        if name is None:
            continue
        error = None if parsed.trees is not None else syntax_error(sessions[0], parsed)
        if error is not None:
            raise error
        if parsed.use is QueryUse.OTHER:
            refuse_table(parsed, name, "Spark runs this statement from its text and does not know the table")
        refuse_table(parsed, name, "its syntax is not supported")


def _positions_of_tables(parsed: ParsedQuery) -> set[int]:
    """Positions of names that sqlglot parsed as those of tables."""
    tables = (table for tree in parsed.trees or () for table in tree.find_all(exp.Table))
    return {part.meta["start"] for table in tables for part in table.parts if "start" in part.meta}


def _is_of_a_from(tokens: Sequence[Token], word: int) -> bool:
    """Whether a name can only be a table's, unlike in `extract(day FROM a)` and `a IS DISTINCT FROM b`."""
    before = [w.keyword for w in tokens[max(0, word - 2) : word]]
    if before[-1:] == ["("]:
        return before == ["TABLE", "("]  # the argument of a function
    if before[-1:] == ["FROM"]:
        return before[0] != "DISTINCT" and word + 1 < len(tokens) and tokens[word + 1].keyword == "."
    return before[-1:] in (["JOIN"], ["TABLE"])


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
    """The table that dotted words name, which may also be the key of a setting; None without one."""
    try:
        found = _resolved(sessions, parts)
    except (InvalidOptionError, TableNotFoundError):
        return None
    if found is None:
        return None
    session, name = found
    return name if session.has_table(name.database, name.table) else None
