"""Messages of the verbs of Catalog and Table, which speak of Python's arguments, in the words of SQL.

The phrases are those of the messages as they are: tests/unit/sql/test_messages.py finds each where it is written.
"""

from __future__ import annotations

from typing import Final

from paimon_spark.errors import PaimonError

_BOTH: Final = (
    ("doctor(repair=True)", "CALL sys.doctor(table => …, repair => true)"),
    ("; give text such as '7 d' or a timedelta", "; give text such as '7 d'"),
    ("or set write.merge-schema=true to add", "or SET spark.paimon.write.merge-schema=true to add"),
)
_CALL: Final = (
    *_BOTH,
    ("or ignore_if_exists=True", "or ignoreIfExists => 'true'"),
    ("backup=True", "backup => true"),
    ("and snapshot_id is", "and snapshot is"),
)
_STATEMENT: Final = (
    *_BOTH,
    ("or create it with ignore_if_exists=True", "or say CREATE TABLE IF NOT EXISTS"),
    ("create it with ignore_if_exists=True", "say CREATE DATABASE IF NOT EXISTS"),
    ("or ignore_if_exists=True", "or say CREATE BRANCH IF NOT EXISTS"),
    ("or give cascade=True", "or say DROP DATABASE … CASCADE"),
    ("replace_tag moves it, delete_tag deletes it", "CREATE OR REPLACE TAG moves it, DELETE TAG deletes it"),
    ("; leave partitions and where out", ""),
)


def in_sql(text: str, *, is_call: bool) -> str:
    """A message with SQL's words for Python's arguments.

    Args:
        text: the message.
        is_call: whether a CALL gets it, which names its arguments, or another statement.
    """
    for python, sql in _CALL if is_call else _STATEMENT:
        text = text.replace(python, sql)
    return text


def reword(error: PaimonError, *, is_call: bool) -> None:
    """Let an error that a statement raised speak SQL."""
    error.message = in_sql(error.message, is_call=is_call)
    error.args = (error.message,)
