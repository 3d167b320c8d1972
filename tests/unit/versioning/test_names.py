"""Names of branches and tags, and those that are refused."""

from __future__ import annotations

import pytest

from paimon_spark.errors import InvalidInputError
from paimon_spark.versioning.names import MAX_BYTES, check_branch_name, check_tag_name, check_tag_text

TABLE = "table db.t"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "not blank"),
        (" \t", "not blank"),
        ("3", "a number means a snapshot id"),
        ("٣", "a number means a snapshot id"),
        ("main", "main is always there"),
        ("a.b", "leave the dots out"),
        (".x", "leave the dots out"),
        ("a/b", "holds no slash"),
        ("a\\b", "holds no slash"),
        ("a\0b", "printable characters"),
        ("a\nb", "printable characters"),
        ("\ud800", "printable characters"),
        (" fix", "neither begins nor ends with a blank"),
        ("fix ", "neither begins nor ends with a blank"),
        ("a$b", "dollar signs"),
        ("snapshot", "versions are written with the word 'snapshot'"),
        ("savepoint", "versions are written with the word 'savepoint'"),
        ("tag-name", "versions are written with the word 'tag-name'"),
        ("tag-id", "versions are written with the word 'tag-id'"),
        ("watermark", "versions are written with the word 'watermark'"),
        ("watermark-x", "versions are written with the word 'watermark-x'"),
        ("Watermark-5", "versions are written with the word 'Watermark-5'"),
        ("x" * (MAX_BYTES + 1), f"at most {MAX_BYTES} bytes"),
        ("é" * MAX_BYTES, f"at most {MAX_BYTES} bytes"),
    ],
)
def test_names_that_are_no_branch_say_why(name: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_branch_name(name, table=TABLE)
    message = str(caught.value)
    assert "cannot be the name of a branch of table db.t: " in message
    assert why in message
    assert len(message) < 300


@pytest.mark.parametrize(
    "name", ["fix", "fix-2", "1a", "snapshots", "Main2", "ünïcode", "a b", "branch-x", "x" * MAX_BYTES]
)
def test_names_that_are_a_branch(name: str) -> None:
    check_branch_name(name, table=TABLE, tag_names=["v1", "other.v1", f"{name}x.v1", name])


def test_a_branch_for_which_a_dotted_tag_exists_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"'fix\.v1' is a tag, which would then be version 'v1' on the"):
        check_branch_name("fix", table=TABLE, tag_names=["fix.v1"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "not blank"),
        ("  ", "not blank"),
        ("20240101", "a number means a snapshot id"),
        ("a/b", "holds no slash"),
        ("a\\b", "holds no slash"),
        (" v1", "neither begins nor ends with a blank"),
        ("v\x7f", "printable characters"),
        ("savepoint-3", "use create_savepoint"),
        ("savepoint-" + "9" * 30, "use create_savepoint"),
        ("branch-guard-fix", "guard the bases of branches"),
        ("snapshot.3", "it is how snapshot '3' is written"),
        ("savepoint.3", "it is how savepoint '3' is written"),
        ("tag-id.3", "it is how tag-id '3' is written"),
        ("tag-name.v1", "it is how tag 'v1' is written"),
        ("watermark-3", "it is how watermark '3' is written"),
        ("watermark--3", "it is how watermark '-3' is written"),
        ("main.v1", "a version 'v1' on branch 'main'"),
        ("fix.v1", "a version 'v1' on branch 'fix'"),
        ("fix.v1.2", "a version 'v1.2' on branch 'fix'"),
        ("success-file", "a directory of that name"),
        ("x" * (MAX_BYTES + 1), f"at most {MAX_BYTES} bytes"),
    ],
)
def test_names_that_are_no_tag_say_why(name: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_tag_name(name, table=TABLE, branch_names=["fix"])
    message = str(caught.value)
    assert "cannot be the name of a tag of table db.t: " in message
    assert why in message


@pytest.mark.parametrize(
    "name", ["v1", "v1.2", "2024-01-01", "2024-01-01 10", "fixed.v1", "fix", "main", "savepoint-", "savepoint-x", "é"]
)
def test_names_that_are_a_tag(name: str) -> None:
    check_tag_name(name, table=TABLE, branch_names=["fix"])


def test_tags_named_by_time_may_be_numbers() -> None:
    check_tag_text("20240101", table=TABLE)
    with pytest.raises(InvalidInputError, match="not blank"):
        check_tag_text("", table=TABLE)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="a name is text, not int"):
        check_tag_name(3, table=TABLE)  # type: ignore[arg-type]
