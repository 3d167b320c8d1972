"""Replace Python arguments in messages of Catalog and Table by SQL clauses.

The phrases must occur in the messages: tests/unit/sql/test_messages.py looks for each in the sources.
"""

from __future__ import annotations

import re
from typing import Final

from paimon_spark.errors import PaimonError
from paimon_spark.types import quoted_if_needed

_BOTH: Final = (
    ("doctor(repair=True)", "CALL sys.doctor(table => …, repair => true)"),
    ("; give text such as '7 d' or a timedelta", "; give text such as '7 d'"),
    ("or set write.merge-schema=true to add", "or SET spark.paimon.write.merge-schema=true to add"),
)
_CALL: Final = (
    *_BOTH,
    ("or ignore_if_exists=True", "or ignoreIfExists => 'true'"),
    ("backup=True", "backup => true"),
    ("if_main_moved='", "if_main_moved => '"),
    ("on_conflict='", "on_conflict => '"),
    ("only_if_main_is=", "only_if_main_is => "),
    ("but snapshot_id is", "but snapshot is"),
)
_STATEMENT: Final = (
    *_BOTH,
    ("or create it with ignore_if_exists=True", "or use CREATE TABLE IF NOT EXISTS"),
    ("create it with ignore_if_exists=True", "use CREATE DATABASE IF NOT EXISTS"),
    ("or ignore_if_exists=True", "or use CREATE BRANCH IF NOT EXISTS"),
    ("replace it with replace=True", "use CREATE OR REPLACE VIEW"),
    ("or give cascade=True", "or use DROP DATABASE … CASCADE"),
    ("replace_tag moves it, delete_tag deletes it", "CREATE OR REPLACE TAG moves it, DELETE TAG deletes it"),
    ("Pass if_main_moved='replace' to replace them by the branch", "Use CALL sys.merge_branch to replace them"),
    (
        "if_main_moved='rebase' to put the branch's changes on top of them",
        "CALL sys.merge_branch(…, if_main_moved => 'rebase') to put the branch's changes on top of them",
    ),
    ("; leave partitions and where out", ""),
    ("give 1 or more, or None for all", "give 1 or more, or leave LIMIT out"),
)


_ROW_DIFF: Final = re.compile(r"Table\.diff\(('[^']+'), ('[^']+'), rows=True\)")
_ATTACHED: Final = (
    (
        "create one with catalog.create_database(name) or CREATE DATABASE in catalog.sql",
        "create one with CREATE DATABASE",
    ),
    ("catalog.sql(", "spark.sql("),
)


def in_plain_sql(text: str, catalog_name: str) -> str:
    """A message about a catalog that is attached to the session, for plain `spark.sql`."""
    for python, sql in _ATTACHED:
        text = text.replace(python, sql)
    return text.replace("CALL sys.", f"CALL {quoted_if_needed(catalog_name)}.sys.")


def in_sql(text: str, *, is_call: bool) -> str:
    """A message with SQL clauses in place of Python arguments: named arguments for a CALL, else statements."""
    for python, sql in _CALL if is_call else _STATEMENT:
        text = text.replace(python, sql)
    return _ROW_DIFF.sub(r"SELECT * FROM paimon_table_diff(…, \1, \2)", text)


def reword(error: PaimonError, *, is_call: bool, catalog_name: str | None = None) -> None:
    """Replace Python arguments in the message of an error; `catalog_name` is that of an attached catalog."""
    message = in_sql(error.message, is_call=is_call)
    error.message = message if catalog_name is None else in_plain_sql(message, catalog_name)
    error.args = (error.message,)
