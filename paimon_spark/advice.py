"""Advice in messages: what to do, in the words of Python, of SQL and of a shell.

Messages have the words of Python, by `f"…; {REPAIR}"`. `reworded` gives a message as another entrance shows it. It
finds advice in the text, as no more is left of an error that Spark passes on, or that is part of another message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

_NAME: Final = re.compile(r"<(\w+)>")


class Entrance(Enum):
    """Where a message is shown: after a CALL, another statement, `spark.sql` of an attached catalog, or a command."""

    CALL = "call"
    STATEMENT = "statement"
    ATTACHED = "attached"
    COMMAND = "command"


@dataclass(frozen=True)
class Advice:
    """A phrase of messages in the words of Python, and what other entrances show in its place; None: the same.

    `<name>` stands for a name, which Python has in quotes. `<table>` may be in those of a command alone.
    """

    python: str
    call: str | None = None
    statement: str | None = None
    attached: str | None = None
    command: str | None = None

    def __str__(self) -> str:
        return self.python

    def of(self, **names: str) -> str:
        """The phrase of Python with these names."""
        return _NAME.sub(lambda found: repr(names[found[1]]), self.python)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(_NAME.sub(r"'(?P<\1>[^']+)'", re.escape(self.python)))

    def reworded(self, text: str, entrance: Entrance, table: str) -> str:
        """A text with the phrase of an entrance."""
        words: str | None = getattr(self, entrance.value)
        if words is None:
            return text
        return self._pattern.sub(
            lambda found: _NAME.sub(lambda name: {"table": table, **found.groupdict()}[name[1]], words), text
        )


REPAIR: Final = Advice(
    "doctor(repair=True)",
    call="CALL sys.doctor(table => …, repair => true)",
    statement="CALL sys.doctor(table => …, repair => true)",
    command="`doctor --repair`",
)
DIFF_ROWS: Final = Advice(
    "Table.diff(<old>, <new>, rows=True)",
    call="SELECT * FROM paimon_table_diff(…, '<old>', '<new>')",
    statement="SELECT * FROM paimon_table_diff(…, '<old>', '<new>')",
    command="`paimon-spark diff <table> <old> <new> --rows`",
)
GIVE_RETENTION: Final = Advice(
    "; give text such as '7 d' or a timedelta",
    call="; give text such as '7 d'",
    statement="; give text such as '7 d'",
)
MERGE_SCHEMA: Final = Advice(
    "or set write.merge-schema=true to add",
    call="or SET spark.paimon.write.merge-schema=true to add",
    statement="or SET spark.paimon.write.merge-schema=true to add",
)
CREATE_MISSING_TABLE: Final = Advice(
    "or create it with ignore_if_exists=True",
    statement="or use CREATE TABLE IF NOT EXISTS",
    command="or create it with --if-not-exists",
)
CREATE_MISSING_DATABASE: Final = Advice(
    "create it with ignore_if_exists=True",
    statement="use CREATE DATABASE IF NOT EXISTS",
    command="create it with --if-not-exists",
)
CREATE_MISSING_BRANCH: Final = Advice(
    "or ignore_if_exists=True",
    call="or ignoreIfExists => 'true'",
    statement="or use CREATE BRANCH IF NOT EXISTS",
    command="or --if-not-exists",
)
CREATE_A_DATABASE: Final = Advice(
    "create one with catalog.create_database(name) or CREATE DATABASE in catalog.sql",
    attached="create one with CREATE DATABASE",
)
CREATE_DATABASE: Final = Advice("catalog.create_database(name)", command="`paimon-spark database create NAME`")
CASCADE: Final = Advice("or give cascade=True", statement="or use DROP DATABASE … CASCADE", command="or give --cascade")
REPLACE_VIEW: Final = Advice("replace it with replace=True", statement="use CREATE OR REPLACE VIEW")
MOVE_TAG: Final = Advice(
    "replace_tag moves it, delete_tag deletes it",
    statement="CREATE OR REPLACE TAG moves it, DELETE TAG deletes it",
    command="`tag replace` moves it, `tag delete` deletes it",
)
ROLL_BACK: Final = Advice("rollback_to goes back", command="`snapshot rollback` goes back")
REPLACE_BY_BRANCH: Final = Advice(
    "Pass if_main_moved='replace' to replace them by the branch", statement="Use CALL sys.merge_branch to replace them"
)
REBASE_BRANCH: Final = Advice(
    "if_main_moved='rebase' to put the branch's changes on top of them",
    statement="CALL sys.merge_branch(…, if_main_moved => 'rebase') to put the branch's changes on top of them",
)
REPLACE_MAIN: Final = Advice(
    "if_main_moved='replace'", call="if_main_moved => 'replace'", command="--if-main-moved replace"
)
REPLACE_TABLE: Final = Advice("replace=[<name>]", command="--replace <name>")
ALL_PARTITIONS: Final = Advice("; leave partitions and where out", statement="")
NO_LIMIT: Final = Advice("give 1 or more, or None for all", statement="give 1 or more, or leave LIMIT out")

ADVICE: Final = (
    REPAIR, DIFF_ROWS, GIVE_RETENTION, MERGE_SCHEMA, CREATE_MISSING_TABLE, CREATE_MISSING_DATABASE,
    CREATE_MISSING_BRANCH, CREATE_A_DATABASE, CREATE_DATABASE, CASCADE, REPLACE_VIEW, MOVE_TAG, ROLL_BACK,
    REPLACE_BY_BRANCH, REBASE_BRANCH, REPLACE_MAIN, REPLACE_TABLE, ALL_PARTITIONS, NO_LIMIT,
)  # fmt: skip
"""Longer phrases are before those that they contain."""

ARGUMENTS: Final = (
    Advice("backup=True", call="backup => true"),
    Advice("if_main_moved='rebase'", call="if_main_moved => 'rebase'", command="--if-main-moved rebase"),
    Advice("if_main_moved=", call="if_main_moved => ", command="--if-main-moved "),
    Advice("on_conflict=", call="on_conflict => ", command="--on-conflict "),
    Advice("only_if_main_is=", call="only_if_main_is => ", command="--only-if-main-is "),
    Advice("as only_if_main_is demands", command="as --only-if-main-is demands"),
    Advice("or leave only_if_main_is out", command="or leave --only-if-main-is out"),
    Advice("but snapshot_id is", call="but snapshot is"),
    Advice("append_branch", command="`paimon-spark branch append`"),
    Advice("catalog.sql(", attached="spark.sql("),
)
"""Arguments and functions of Python, wherever messages name them."""


def reworded(text: str, entrance: Entrance, table: str = "TABLE") -> str:
    """A message in the words of an entrance."""
    for advice in (*ADVICE, *ARGUMENTS):
        text = advice.reworded(text, entrance, table)
    return text
