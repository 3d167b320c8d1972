"""`sys.max_pt('t')` in a statement → its value, as a literal in its place."""

from __future__ import annotations

from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.brackets import closing
from paimon_spark.sql.session import Session
from paimon_spark.sql.text import Edit, edited, words

_DATABASE = "SYS"


def with_scalars(session: Session, sql: str) -> str:
    """The statement with the values of Paimon's scalar functions. Raises as `scalar_of_call`."""
    if "sys" not in sql.lower():
        return sql
    edits: list[Edit] = []
    found = words(sql)
    for i, word in enumerate(found[:-3]):
        called = found[i + 2]
        if word.text.upper() != _DATABASE or word.is_text or found[i + 1].keyword != "." or not called.is_name:
            continue
        if found[i + 3].keyword != "(" or (edits and word.start < edits[-1].end):
            continue
        end = closing(found, i + 3)
        if end is None or found[0].keyword == "CALL":
            return sql  # of brackets that do not end, Spark says what is wrong
        from paimon_spark.sql.functions.max_partition import scalar_of_call

        value = scalar_of_call(session, called.text, sql[found[i + 3].end : found[end].start])
        start = found[i - 2].start if i >= 2 and found[i - 1].keyword == "." else word.start
        edits.append(Edit(start, found[end].end, literal_text(value)))
    return edited(sql, edits)
