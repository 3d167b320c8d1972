"""Statements on tags and branches are read as Paimon's and Iceberg's users write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.execute import parse
from paimon_spark.sql.grammar.tags_and_branches import (
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTags,
    PublishBranch,
    Refs,
    RenameRef,
    ShowRefs,
    read_alter_refs,
)
from paimon_spark.sql.statement import Query

T = ("db", "t")


def tag(name: str, **given: Any) -> dict[str, Any]:
    return {"tag": name, "version": None, "retained": None, "replace": False, "if_not_exists": False, **given}


def branch(name: str, **given: Any) -> dict[str, Any]:
    rest = {"tag": None, "version": None, "replace": False, "if_not_exists": False, "retention": ""}
    return {"branch": name, **rest, **given}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("CREATE TAG `TAG-1`", (CreateTag, tag("TAG-1"))),
        ("create tag if not exists `TAG-1`", (CreateTag, tag("TAG-1", if_not_exists=True))),
        ("CREATE TAG v RETAIN 7 DAYS", (CreateTag, tag("v", retained=timedelta(days=7)))),
        ("CREATE TAG v AS OF VERSION 1", (CreateTag, tag("v", version=1))),
        (
            "CREATE TAG v AS OF VERSION 2 RETAIN 12 HOURS",
            (CreateTag, tag("v", version=2, retained=timedelta(hours=12))),
        ),
        ("REPLACE TAG v AS OF VERSION 2 RETAIN 24 MINUTES;", (CreateTag, tag("v", version=2, replace=True))),
        ("CREATE OR REPLACE TAG `ü``x`", (CreateTag, tag("ü`x", replace=True))),
        ("CREATE TAG v AS OF VERSION 'fix.v 1'", (CreateTag, tag("v", version="fix.v 1"))),
        ("DELETE TAG `a, b,c`", (DropTags, {"tags": ("a", "b", "c"), "if_exists": False})),
        ("DROP TAG IF EXISTS a, `b.1`", (DropTags, {"tags": ("a", "b.1"), "if_exists": True})),
        ("RENAME TAG `TAG-1` TO `TAG-2`", (RenameRef, {"old": "TAG-1", "new": "TAG-2", "is_tag": True})),
        ("CREATE BRANCH fix", (CreateBranch, branch("fix"))),
        (
            "CREATE BRANCH IF NOT EXISTS fix FROM TAG `v.1`",
            (CreateBranch, branch("fix", tag="v.1", if_not_exists=True)),
        ),
        ("CREATE BRANCH fix FROM SNAPSHOT 3", (CreateBranch, branch("fix", version=3))),
        (
            "CREATE OR REPLACE BRANCH fix AS OF VERSION 'a.b'",
            (CreateBranch, branch("fix", version="a.b", replace=True)),
        ),
        (
            "CREATE BRANCH fix AS OF VERSION 1 RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS",
            (
                CreateBranch,
                branch("fix", version=1, retention="RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS"),
            ),
        ),
        ("REPLACE BRANCH fix AS OF VERSION 4", (CreateBranch, branch("fix", version=4, replace=True, must_exist=True))),
        ("DROP BRANCH IF EXISTS fix", (DropBranch, {"branch": "fix", "if_exists": True})),
        ("RENAME BRANCH a TO b", (RenameRef, {"old": "a", "new": "b", "is_tag": False})),
        ("FAST FORWARD BRANCH fix", (PublishBranch, {"branch": "fix", "takes_back": True})),
        ("MERGE BRANCH fix", (PublishBranch, {"branch": "fix"})),
    ],
)
def test_what_follows_the_table_is_read(words: str, expected: tuple[Any, dict[str, Any]]) -> None:
    sql = f"ALTER TABLE db.t {words}"
    kind, given = expected
    if words.startswith("REPLACE TAG"):
        given = {**given, "retained": timedelta(minutes=24)}
    assert parse(sql) == kind(sql=sql.removesuffix(";") + (";" if sql.endswith(";") else ""), table=T, **given)


@pytest.mark.parametrize("name", ["db.t$branch_fix", "`db`.`t$branch_fix`", "db.`t$branch_fix`"])
def test_a_branch_is_named_with_or_without_quotes(name: str) -> None:
    statement = parse(f"ALTER TABLE {name} CREATE TAG v1")
    assert isinstance(statement, CreateTag)
    assert statement.table == ("db", "t$branch_fix")


@pytest.mark.parametrize("what", list(Refs))
def test_refs_are_shown_of_a_table(what: Refs) -> None:
    sql = f"show {what.value} in db.t"
    assert parse(sql) == ShowRefs(sql, T, what)


@pytest.mark.parametrize(
    "words",
    [
        "ADD COLUMN tag STRING",
        "DROP COLUMN branch",
        "RENAME TO tag",
        "RENAME COLUMN tag TO branch",
        "REPLACE COLUMNS (tag INT)",
        "SET TBLPROPERTIES ('tag' = 'branch')",
        "CREATE SOMETHING x",
    ],
)
def test_other_changes_of_a_table_are_left_to_others(words: str) -> None:
    cursor = Cursor(words)
    assert read_alter_refs(cursor, ("tag",)) is None
    assert cursor.index == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("CREATE TAG", "expected the name of a tag, in backquotes"),
        ("CREATE TAG v-1", "expected the end of the statement, found '-'"),
        ("CREATE TAG 'v'", "expected the name of a tag"),
        ("CREATE TAG v AS OF VERSION x", "expected the id of a snapshot, or a version in quotes, found 'x'"),
        ("CREATE TAG v AS OF VERSION 1.5", "expected the id of a snapshot"),
        ("CREATE TAG v RETAIN 7 WEEKS", "expected DAYS, HOURS or MINUTES, found 'WEEKS'"),
        ("CREATE TAG v RETAIN 99999999999 DAYS", "expected a shorter time, found '99999999999'"),
        ("RENAME TAG a b", "expected TO, found 'b'"),
        ("CREATE BRANCH b FROM VERSION 1", "expected SNAPSHOT, found 'VERSION'"),
        ("DROP BRANCH a, b", "expected the end of the statement"),
        ("FAST FORWARD fix", "expected BRANCH, found 'fix'"),
        ("FAST BRANCH fix", "expected FORWARD, found 'BRANCH'"),
        ("MERGE FORWARD BRANCH fix", "expected BRANCH, found 'FORWARD'"),
    ],
)
def test_what_is_written_wrongly_is_said_with_its_place(words: str, said: str) -> None:
    with pytest.raises(SqlSyntaxError, match=said.replace("(", r"\(")) as raised:
        parse(f"ALTER TABLE db.t {words}")
    assert "at position" in raised.value.message


def test_show_of_other_things_is_a_query_for_spark() -> None:
    for sql in ("SHOW KEYS", "SHOW FUNCTIONS", "SHOW USER FUNCTIONS LIKE 'x*'"):
        assert parse(sql) == Query(sql)
