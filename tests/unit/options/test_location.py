from __future__ import annotations

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.location import (
    TableLocation,
    branch_in_force,
    is_name,
    locate,
    split_name,
    split_suffix,
    table_url,
)

WAREHOUSE = {"warehouse": "s3://lake/wh/"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/wh/db.db/t", TableLocation("/wh/db.db/t", "/wh/db.db/t")),
        ("/wh/db.db/t/", TableLocation("/wh/db.db/t", "/wh/db.db/t")),
        ("s3://b/t", TableLocation("s3://b/t", "s3://b/t")),
        ("memory://t", TableLocation("memory://t", "memory://t")),
        ("./db.t", TableLocation("./db.t", "./db.t")),
        ("db.t", TableLocation("s3://lake/wh/db.db/t", "db.t")),
        ("`my db`.`t.x`", TableLocation("s3://lake/wh/my db.db/t.x", "my db.t.x")),
        ("paimon.db.t", TableLocation("s3://lake/wh/db.db/t", "db.t")),
        ("db.t$branch_fix", TableLocation("s3://lake/wh/db.db/t", "db.t", "fix")),
        ("db.t$snapshots", TableLocation("s3://lake/wh/db.db/t", "db.t", None, "snapshots")),
        ("/a$b/t$branch_fix$tags", TableLocation("/a$b/t", "/a$b/t", "fix", "tags")),
    ],
)
def test_a_table_is_named_by_path_or_by_name_in_a_warehouse(text: str, expected: TableLocation) -> None:
    assert locate(text, WAREHOUSE) == expected


def test_without_a_warehouse_every_text_is_a_path() -> None:
    assert locate("db.t", {}).url == "db.t"


@pytest.mark.parametrize("text", ["", " ", "/", "t$", "t$branch_", "t$a$b", "t$branch_x$a$b", "t$$a", "$snapshots"])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError):
        locate(text, WAREHOUSE)


def test_a_branch_in_the_name_and_another_in_the_options_are_refused() -> None:
    location = locate("db.t$branch_a", WAREHOUSE)
    with pytest.raises(InvalidOptionError, match=r"two branches are given for table db.t: \$branch_a .* 'b'"):
        branch_in_force(location, "b")
    assert branch_in_force(location, "a") == "a"
    assert branch_in_force(location, None) == "a"
    assert branch_in_force(locate("db.t", WAREHOUSE), "b") == "b"
    assert branch_in_force(locate("db.t", WAREHOUSE), None) == "main"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b"])
def test_names_never_lead_out_of_the_warehouse(name: str) -> None:
    with pytest.raises(InvalidOptionError):
        table_url("/wh", "db", name)
    with pytest.raises(InvalidOptionError):
        table_url("/wh", name, "t")


def test_names_hold_a_database() -> None:
    assert not is_name("t")
    assert not is_name("a/b.c")
    assert split_name("db.t") == ("db", "t")
    with pytest.raises(InvalidOptionError, match="expected database"):
        split_name("t")


def test_only_the_last_segment_has_suffixes() -> None:
    assert split_suffix("/x$branch_a/t") == ("/x$branch_a/t", None, None)
