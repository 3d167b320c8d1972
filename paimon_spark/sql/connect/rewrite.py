"""Rewrite a query: DataFrames in place of Paimon tables, values in place of `sys.max_pt`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlglot import exp

from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.functions import scalar_of_call
from paimon_spark.sql.queries.parse import ParsedQuery
from paimon_spark.sql.queries.references import Reference
from paimon_spark.sql.queries.scopes import Tree
from paimon_spark.sql.session import Session
from paimon_spark.sql.tokens import Edit, edited, matching_bracket, tokenize
from paimon_spark.types import quoted

_DATABASE: Final = "SYS"


def replaced(
    parsed: ParsedQuery,
    references: Sequence[Reference],
    metadata: Mapping[Reference, Collection[str]],
    begin: int = 0,
) -> str:
    """The query from position `begin` on, with `{p0}`, `{p1}` … in place of the references.

    `metadata` has, by reference, the columns that a `*` must not include.
    """
    selects = {r: parsed.scopes.select_of(r.node) for r in references}
    aliases = {r: _alias(r, selects) for r in references}
    edits = [e for n, r in enumerate(references) for e in _places(parsed, r, n, aliases[r])]
    edits += _columns(parsed, selects, aliases)
    edits += _hidden(parsed, aliases, metadata)
    taken = [(e.start, e.end) for e in edits if e.end > e.start]
    edits += [Edit(d.start, d.end, quoted(d.text)) for d in parsed.dollars if not _is_in(d.start, taken)]
    sql = parsed.sql
    braces = [Edit(i, i + 1, c * 2) for i, c in enumerate(sql) if c in "{}" and not _is_in(i, taken)]
    whole = [e._replace(start=e.start - begin, end=e.end - begin) for e in (*edits, *braces) if e.start >= begin]
    return edited(sql[begin:], whole)


def _alias(reference: Reference, selects: Mapping[Reference, Tree]) -> str:
    """The alias of a reference: its name, with the database when two in one FROM have the same name."""
    name, select = reference.visible, selects[reference]
    others = [
        r for r, around in selects.items()
        if r.is_bare and around is not None and around is select and r.visible == name
        and r.full_name != reference.full_name
    ]  # fmt: skip
    if not others or not reference.is_bare:
        return name
    is_of_two = any(r.name == reference.name for r in others)
    return ".".join(reference.full_name[0 if is_of_two else 1 :])


def _places(parsed: ParsedQuery, reference: Reference, number: int, alias: str) -> list[Edit]:
    """The DataFrame in place of the name, and an alias if there was none."""
    frame = f"{{p{number}}}"
    before = [w for w in parsed.tokens if w.end <= reference.start]
    if before and before[-1].start in parsed.tables:
        return [Edit(before[-1].start, reference.cut_end, f"SELECT * FROM {frame} AS {quoted(alias)}")]  # noqa: S608 - text of Spark's
    if reference.alias:
        return [Edit(reference.start, reference.cut_end, frame)]
    called = f" AS {quoted(alias)}"
    if reference.sample is None:
        return [Edit(reference.start, reference.cut_end, frame + called)]
    return [Edit(reference.start, reference.cut_end, frame), Edit(reference.sample[1], reference.sample[1], called)]


def _columns(parsed: ParsedQuery, selects: Mapping[Reference, Tree], aliases: Mapping[Reference, str]) -> list[Edit]:
    """Columns qualified with the database: `db.t.a` becomes `t.a`."""
    found: dict[int, Edit] = {}
    for column, scope in parsed.scopes.columns:
        names = [part.name for part in column.parts]
        if len(names) < 2 or any("start" not in p.meta for p in column.parts if isinstance(p, exp.Identifier)):
            continue
        for select in parsed.scopes.selects(scope):
            owners = {r: length for r in aliases if selects[r] is select and (length := _prefix(r, names))}
            if len({r.session.catalog_name for r in owners}) == 1:
                owner, length = next(iter(owners.items()))
                start, end = column.parts[0].meta["start"], column.parts[length - 1].meta["end"] + 1
                found[start] = Edit(start, end, quoted(aliases[owner]))
            if owners:
                break  # the innermost; of tables of several catalogs Spark reports the column
    return list(found.values())


def _prefix(reference: Reference, names: Sequence[str]) -> int:
    """The number of parts before a column that are the qualified name of a table; 0 for another one."""
    full = [part.lower() for part in reference.full_name]
    matching = (part for part in (full, full[1:]) if names[: len(part)] == part and len(names) > len(part))
    return len(next(matching, ())) if reference.is_bare else 0


def _hidden(
    parsed: ParsedQuery, aliases: Mapping[Reference, str], metadata: Mapping[Reference, Collection[str]]
) -> list[Edit]:
    """EXCEPT behind a `*` for columns that it must not include."""
    hidden: dict[int, list[str]] = {}
    for reference, columns in metadata.items():
        for star in stars_without_list(parsed, reference) if columns else ():
            place = star.meta["end"] + 1
            prefix = "" if isinstance(star.parent, exp.Column) else quoted(aliases[reference]) + "."
            hidden.setdefault(place, []).extend(prefix + quoted(c) for c in columns)
    return [Edit(place, place, f" EXCEPT ({', '.join(names)})") for place, names in hidden.items()]


def stars_without_list(parsed: ParsedQuery, reference: Reference) -> list[Tree]:
    """The `*` that include columns of a reference and have no EXCEPT of their own."""
    stars = parsed.scopes.stars(reference.node, reference.key)
    return [s for s in stars if not s.args.get("except_") and "end" in s.meta]


def _is_in(place: int, taken: Sequence[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in taken)


def with_scalars(session: Session, sql: str) -> str:
    """The query with values in place of Paimon's scalar functions of attached catalogs. Raises as `scalar_of_call`."""
    if "sys" not in sql.lower():
        return sql
    sessions = tuple(session.each())
    edits: list[Edit] = []
    found = tokenize(sql)
    for i, word in enumerate(found[:-3]):
        called = found[i + 2]
        if word.text.upper() != _DATABASE or word.is_text or found[i + 1].keyword != "." or not called.is_name:
            continue
        if found[i + 3].keyword != "(" or (edits and word.start < edits[-1].end):
            continue
        end = matching_bracket(found, i + 3)
        if end is None or found[0].keyword == "CALL":
            return sql  # Spark reports brackets that do not end
        qualifier = found[i - 2] if i >= 2 and found[i - 1].keyword == "." else None
        of = _session_of_function(sessions, None if qualifier is None else qualifier.text)
        if of is None:
            continue
        value = scalar_of_call(of, called.text, sql[found[i + 3].end : found[end].start])
        start = word.start if qualifier is None else qualifier.start
        edits.append(Edit(start, found[end].end, literal_text(value)))
    return edited(sql, edits)


def _session_of_function(sessions: Sequence[Session], catalog: str | None) -> Session | None:
    """The session of the catalog that has a function `[catalog.]sys.f`; None when it is Spark's."""
    if catalog is None:
        return sessions[0] if sessions[0].is_current else None
    return next((s for s in sessions if s.catalog_name.lower() == catalog.lower()), None)
