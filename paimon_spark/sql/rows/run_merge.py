"""MERGE: its source becomes a DataFrame, its clauses expressions by column, and `spark.merge` does the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.row_level.way import way_of
from paimon_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.metadata.handle import current
from paimon_spark.spark.merge import Clause, Merge, Verb, When
from paimon_spark.spark.row_level import Change
from paimon_spark.spark.session import our_errors
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.rows import statements
from paimon_spark.sql.rows.expressions import default_of, refuse_subqueries, requalified, values_by_column
from paimon_spark.sql.rows.grammar import read_with
from paimon_spark.sql.rows.merge_grammar import read_merge
from paimon_spark.sql.rows.parameters import bound
from paimon_spark.sql.rows.statements import Action, Matched, WhenClause
from paimon_spark.sql.rows.target import Target, open_target
from paimon_spark.sql.session import Session
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHEN: Final = {
    Matched.BOTH: When.MATCHED,
    Matched.SOURCE: When.NOT_MATCHED,
    Matched.TARGET: When.NOT_MATCHED_BY_SOURCE,
}
_VERB: Final = {Action.UPDATE: Verb.UPDATE, Action.INSERT: Verb.INSERT, Action.DELETE: Verb.DELETE}
_NAMELESS: Final = "paimon_source"
_TARGET: Final = "paimon_target"


def run_merge(session: Session, statement: statements.Merge) -> DataFrame | None:
    """Carry out a MERGE. Raises as `Table.merge`; Spark's own errors for the expressions."""
    given = statement.sql
    session, sql = bound(session, given)
    if sql != statement.sql:
        cursor = Cursor(sql)
        again = read_with(cursor) if cursor.at("WITH") else read_merge(cursor)
        assert isinstance(again, statements.Merge)
        statement = again
    target = open_target(session, statement.name, given)
    if target is None:
        return NotImplemented  # type: ignore[no-any-return]
    values = [a.value for c in statement.clauses for a in c.assignments or ()]
    refuse_subqueries([statement.condition, *(c.condition for c in statement.clauses), *values])
    way_of(current(target.table.handle))
    with our_errors():
        source = target.query(f"{statement.prefix} SELECT * FROM {statement.source}".strip())  # noqa: S608 - the user's own
        _Merging(target, statement, source).merge().run()
    return None


@dataclass(frozen=True)
class _Merging:
    """A MERGE and the rows that it brings in."""

    target: Target
    statement: statements.Merge
    source: DataFrame

    def merge(self) -> Merge:
        """As `spark.merge` takes it."""
        change = Change.of(self.target.table)
        clauses = tuple(map(self._clause, self.statement.clauses))
        on = self._text(self.statement.condition)
        return Merge(change, self.source, on, clauses, self._alias, self._source_alias, refuses_pairs=True)

    @property
    def _source_alias(self) -> str:
        return self.statement.source_alias or _NAMELESS

    @property
    def _alias(self) -> str:
        """What the table is called in expressions; where the source has the same name, only `db.t.c` means it."""
        alias = self.statement.alias or self.statement.name[-1]
        return _TARGET if alias.lower() == self._source_alias.lower() else alias

    def _text(self, text: str) -> str:
        """An expression in which `db.t.c` of either side is a column of its alias."""
        if self.statement.alias is None:
            text = requalified(text, self.target.full_names, self._alias)
        return requalified(text, self._source_names, self._source_alias)

    @property
    def _source_names(self) -> list[tuple[str, ...]]:
        """What the source is called in full, where it is a table without an alias."""
        words = Cursor(self.statement.source).words
        if not all(w.is_name or w.keyword in (".", "$") for w in words):
            return []
        cursor = Cursor(self.statement.source)
        name = cursor.name()
        return [name] if cursor.is_over else []

    def _clause(self, clause: WhenClause) -> Clause:
        when, verb = _WHEN[clause.matched], _VERB[clause.action]
        condition = None if clause.condition is None else self._text(clause.condition)
        if verb is Verb.DELETE:
            return Clause(when, verb, condition)
        if clause.assignments is None:
            values = self._star(verb)
        else:
            given = values_by_column(self.target, clause.assignments, (self._alias,))
            values = {n: self._text(e) for n, e in given.items()}
        if verb is Verb.INSERT:
            defaults = {f.name: default_of(f) for f in self.target.columns if f.default_value is not None}
            return Clause(when, verb, condition, {**defaults, **values})
        keys = self.target.table.schema.primary_keys
        same = {n: values.pop(n) for n in keys if n in values}
        return Clause(when, verb, condition, values, same)

    def _star(self, verb: Verb) -> dict[str, str]:
        """What `*` means: all columns of the table, from those of the source."""
        there = {c.lower(): c for c in self.source.columns}
        names = [f.name for f in self.target.columns]
        where = self.target.table.handle.describe()
        missing = [n for n in names if n.lower() not in there]
        merges = self.target.merges_schema
        if missing and not merges:
            raise SchemaMismatchError(
                f"{verb.name} * fills all columns of {where}, and the source has no column {', '.join(missing)}; it "
                f"has {', '.join(self.source.columns)}. Name the columns instead",
                column=missing[0],
            )
        more = [c for c in self.source.columns if c.lower() not in {n.lower() for n in names}]
        if more and merges:
            raise UnsupportedFeatureError(
                f"the source of the MERGE has columns that {where} lacks, {', '.join(more)}, and MERGE does not add "
                "them; add them first with ALTER TABLE … ADD COLUMNS, or set spark.paimon.write.merge-schema=false to "
                "leave them out",
                feature="MERGE with write.merge-schema",
            )
        alias = quoted(self._source_alias)
        return {n: f"{alias}.{quoted(there[n.lower()])}" for n in names if n.lower() in there}
