"""Where tables lie, and the defaults of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.location import (
    TableName,
    branch_in_force,
    configured,
    is_name,
    parse_table,
    split_name,
    split_suffix,
    table_url,
)

WAREHOUSE = "s3://lake/wh/"


@pytest.mark.parametrize(
    ("text", "expected", "url", "shown"),
    [
        ("/wh/db.db/t", TableName("", "/wh/db.db/t"), "/wh/db.db/t", "/wh/db.db/t"),
        ("/wh/db.db/t/", TableName("", "/wh/db.db/t"), "/wh/db.db/t", "/wh/db.db/t"),
        ("s3://b/t", TableName("", "s3://b/t"), "s3://b/t", "s3://b/t"),
        ("memory://t", TableName("", "memory://t"), "memory://t", "memory://t"),
        ("./db.t", TableName("", "./db.t"), "./db.t", "./db.t"),
        ("db.t", TableName("db", "t"), "s3://lake/wh/db.db/t", "db.t"),
        ("`my db`.`t.x`", TableName("my db", "t.x"), "s3://lake/wh/my db.db/t.x", "my db.t.x"),
        ("paimon.db.t", TableName("db", "t"), "s3://lake/wh/db.db/t", "db.t"),
        ("db.t$branch_fix", TableName("db", "t", "fix"), "s3://lake/wh/db.db/t", "db.t"),
        ("db.t$snapshots", TableName("db", "t", None, "snapshots"), "s3://lake/wh/db.db/t", "db.t"),
        ("/a$b/t$branch_fix$tags", TableName("", "/a$b/t", "fix", "tags"), "/a$b/t", "/a$b/t"),
        ("db.t#savepoints", TableName("db", "t", None, "savepoints"), "s3://lake/wh/db.db/t", "db.t"),
        ("/a/t$branch_fix#savepoints", TableName("", "/a/t", "fix", "savepoints"), "/a/t", "/a/t"),
        ("/a/t#tags", TableName("", "/a/t#tags"), "/a/t#tags", "/a/t#tags"),
    ],
)
def test_a_table_is_named_by_path_or_by_name_in_a_warehouse(
    text: str, expected: TableName, url: str, shown: str
) -> None:
    name = parse_table(text, has_warehouse=True)
    assert name == expected
    assert (table_url(WAREHOUSE, name.database, name.table) if name.database else name.table) == url
    assert name.shown == shown


def test_without_a_warehouse_every_text_is_a_path() -> None:
    assert parse_table("db.t", has_warehouse=False) == TableName("", "db.t")


@pytest.mark.parametrize("text", ["", " ", "/", "t$", "t$branch_", "t$a$b", "t$branch_x$a$b", "t$$a", "$snapshots"])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError):
        parse_table(text, has_warehouse=True)


@pytest.mark.parametrize("path", ["s3://b/t/branch/branch-fix", "s3://b/t/branch/branch-fix/$tags"])
def test_the_directory_of_a_branch_is_no_table(path: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        parse_table(path.replace("/$", "$"), has_warehouse=True)

    assert (
        "is the directory of branch 'fix'; give the path of the table, 's3://b/t', with option(\"branch\", \"fix\")"
        in str(error.value)
    )


def test_a_branch_in_the_name_and_another_in_the_options_are_refused() -> None:
    name = parse_table("db.t$branch_a", has_warehouse=True)
    with pytest.raises(InvalidOptionError, match=r"two branches are given for table db.t: \$branch_a .* 'b'"):
        branch_in_force(name, "b")
    assert branch_in_force(name, "a") == "a"
    assert branch_in_force(name, None) == "a"
    assert branch_in_force(parse_table("db.t", has_warehouse=True), "b") == "b"
    assert branch_in_force(parse_table("db.t", has_warehouse=True), None) == "main"


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


def write(folder: Path, text: str) -> dict[str, str]:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return {"PAIMON_CONFIG": str(path)}


def test_nothing_is_configured_where_there_is_no_file(tmp_path: Path) -> None:
    assert configured({"XDG_CONFIG_HOME": str(tmp_path)}) == {}


def test_the_file_gives_a_warehouse_and_file_system_options(tmp_path: Path) -> None:
    environ = write(
        tmp_path, 'warehouse = "/wh"\n"fs.key" = "k"\n[s3]\nendpoint = "http://x"\n"path.style.access" = true\n'
    )
    assert configured(environ) == {
        "warehouse": "/wh",
        "fs.key": "k",
        "s3.endpoint": "http://x",
        "s3.path.style.access": "true",
    }


def test_the_environment_wins(tmp_path: Path) -> None:
    environ = write(tmp_path, 'warehouse = "/wh"')
    assert configured({**environ, "PAIMON_WAREHOUSE": "/other"}) == {"warehouse": "/other"}


def test_a_file_changed_is_read_again(tmp_path: Path) -> None:
    import os

    environ = write(tmp_path, 'warehouse = "/a"')
    assert configured(environ)["warehouse"] == "/a"
    write(tmp_path, 'warehouse = "/b"')
    os.utime(tmp_path / "config.toml", ns=(1, 1))
    assert configured(environ)["warehouse"] == "/b"


@pytest.mark.parametrize(
    ("text", "words"),
    [("warehouse = ", "cannot be read"), ('warehous = "x"', "unknown"), ("warehouse = [1]", "expected text")],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        configured(write(tmp_path, text))
    assert words in str(caught.value)
    assert "config.toml" in str(caught.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="PAIMON_CONFIG"):
        configured({"PAIMON_CONFIG": str(tmp_path / "none.toml")})
