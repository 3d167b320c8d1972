"""Tags and branches by SQL: what the statements leave behind, and what they say when it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    BranchAlreadyExistsError,
    BranchDivergedError,
    BranchNotFoundError,
    InvalidInputError,
    PaimonError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TagAlreadyExistsError,
    TagNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.harness.doors import Door, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.newest]


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    """A warehouse with the table db.t of three snapshots, and the empty db.`odd.name`."""
    made = door.load_catalog(warehouse=str(tmp_path / "warehouse"))
    made.create_database("db")
    table = made.create_table("db.t", "k INT, v STRING")
    for key in (1, 2, 3):
        table.write(pa.table({"k": pa.array([key], pa.int32()), "v": [str(key)]}))
    made.create_table("db.`odd.name`", "k INT")
    return made


@pytest.mark.quick
def test_tags_are_made_moved_renamed_and_deleted(catalog: Catalog, spark: SparkSession) -> None:
    def sql(text: str) -> list[list[Any]]:
        return [list(row) for row in catalog.sql(text, session=spark).collect()]

    def tags(name: str = "db.t") -> dict[str, tuple[int, float | None]]:
        return {t.name: (t.snapshot.id, t.time_retained_s) for t in catalog.table(name).tags() if t.guards is None}

    assert sql("SHOW TAGS db.t") == []
    assert sql("ALTER TABLE db.t CREATE TAG `TAG-1`") == []
    sql("ALTER TABLE db.t CREATE TAG IF NOT EXISTS `TAG-1` AS OF VERSION 1")
    sql("ALTER TABLE db.t CREATE TAG `t 2` AS OF VERSION 2 RETAIN 12 HOURS")
    sql("ALTER TABLE paimon.db.t CREATE OR REPLACE TAG v3 AS OF VERSION 'snapshot.1' RETAIN 7 DAYS")
    sql("ALTER TABLE db.t REPLACE TAG `t 2` AS OF VERSION 'TAG-1'")
    sql("ALTER TABLE db.t REPLACE TAG `made.too` AS OF VERSION 2")
    day = 86_400.0
    assert tags() == {"TAG-1": (3, None), "t 2": (3, None), "v3": (1, 7 * day), "made.too": (2, None)}
    assert sql("SHOW TAGS db.t") == [["TAG-1"], ["made.too"], ["t 2"], ["v3"]]
    with refused(catalog, TagNotFoundError, match="v4"):
        sql("ALTER TABLE db.t DELETE TAG `v3, v4`")
    sql("ALTER TABLE db.t DELETE TAG IF EXISTS `v3, v4`")
    sql("ALTER TABLE db.t DROP TAG `t 2`, `made.too`")
    sql("ALTER TABLE db.t RENAME TAG `TAG-1` TO `überall`")
    assert tags() == {"überall": (3, None)}
    # An option of the table holds for tags whose time is not said.
    catalog.table("db.t").alter(set_options={"tag.default-time-retained": "1 d"})
    sql("ALTER TABLE db.t CREATE TAG lasting AS OF VERSION 1")
    assert tags()["lasting"] == (1, day)


def test_a_tag_of_any_version_is_on_a_branch_that_has_it(catalog: Catalog, spark: SparkSession) -> None:
    table = catalog.table("db.t")
    table.create_branch("fix", snapshot_id=1)
    table.branch("fix").write(pa.table({"k": pa.array([9], pa.int32()), "v": ["9"]}))
    catalog.sql("ALTER TABLE db.t CREATE TAG shared AS OF VERSION 'fix.1'", session=spark)
    catalog.sql("ALTER TABLE db.t CREATE TAG good AS OF VERSION 'fix.2'", session=spark)
    catalog.sql("ALTER TABLE db.t CREATE OR REPLACE TAG good AS OF VERSION 'fix'", session=spark)
    assert [t.name for t in table.tags() if t.guards is None] == ["shared"]
    assert [t.name for t in table.branch("fix").tags() if t.guards is None] == ["good"]
    found = catalog.sql("SELECT k FROM db.t VERSION AS OF 'fix.good' ORDER BY k", session=spark)
    assert [row.k for row in found.collect()] == [1, 9]


@pytest.mark.quick
def test_branches_begin_with_the_head_a_tag_a_snapshot_or_any_version(catalog: Catalog, spark: SparkSession) -> None:
    def sql(text: str) -> list[list[Any]]:
        return [list(row) for row in catalog.sql(text, session=spark).collect()]

    def keys(branch: str) -> list[int]:
        return sorted(catalog.table(f"db.t$branch_{branch}").scan().to_arrow()["k"].to_pylist())

    sql("ALTER TABLE db.t CREATE TAG v1 AS OF VERSION 1")
    sql("ALTER TABLE db.t CREATE BRANCH of_head")
    sql("ALTER TABLE db.t CREATE BRANCH of_tag FROM TAG v1")
    sql("ALTER TABLE db.t CREATE BRANCH of_number AS OF VERSION 2")
    sql("ALTER TABLE db.t CREATE OR REPLACE BRANCH of_text AS OF VERSION 'v1'")
    assert {b: keys(b) for b in ("of_head", "of_tag", "of_number", "of_text")} == {
        "of_head": [1, 2, 3],
        "of_tag": [1],
        "of_number": [1, 2],
        "of_text": [1],
    }
    catalog.table("db.t$branch_of_tag").write(pa.table({"k": pa.array([9], pa.int32()), "v": ["nine"]}))
    sql("ALTER TABLE db.t$branch_of_tag CREATE TAG good")
    sql("ALTER TABLE db.`t$branch_of_tag` CREATE TAG better")
    sql("ALTER TABLE db.t CREATE BRANCH of_branch AS OF VERSION 'of_tag.good'")
    sql("ALTER TABLE `db`.`t$branch_of_tag` CREATE BRANCH of_that_head")
    sql("ALTER TABLE db.t CREATE BRANCH IF NOT EXISTS of_branch")
    assert (keys("of_branch"), keys("of_that_head")) == ([1, 9], [1, 9])
    assert "good" not in [name for (name,) in sql("SHOW TAGS db.t")]
    shown = [name for (name,) in sql("SHOW TAGS db.t$branch_of_tag")]
    assert {"good", "better"} <= set(shown)
    assert sql("SHOW BRANCHES db.t") == [
        ["of_branch", "good", 2],
        ["of_head", None, 3],
        ["of_number", None, 2],
        ["of_tag", "v1", 1],
        ["of_text", "v1", 1],
        ["of_that_head", None, 2],
    ]
    for name in ("of_branch", "of_that_head", "of_text"):
        sql(f"ALTER TABLE db.t DROP BRANCH {name}")
    sql("ALTER TABLE db.t DROP BRANCH IF EXISTS of_text")
    sql("ALTER TABLE db.t RENAME BRANCH of_number TO numbered")
    assert [name for name, *_ in sql("SHOW BRANCHES db.t")] == ["numbered", "of_head", "of_tag"]
    (published,) = sql("ALTER TABLE db.t FAST FORWARD BRANCH of_tag")
    assert published[:2] == [2, [2, 3]]
    for what, column in (("TAGS", "tag_name"), ("BRANCHES", "branch_name")):
        names = [str(name) for name, *_ in sql(f"SHOW {what} db.t")]
        every = [str(name) for (name,) in sql(f"SELECT {column} FROM db.t${what.lower()}")]
        internal = [name for name in every if name.startswith(("branch-guard-", "main_backup_"))]
        assert internal and not set(internal) & set(names), "only the system table lists what this package keeps"
    assert sorted(catalog.table("db.t").scan().to_arrow()["k"].to_pylist()) == [1, 9]
    assert keys(published[2]) == [1, 2, 3]
    assert [row[0] for row in sql("SHOW SNAPSHOTS db.t")] == [1, 2]
    # A table without snapshots gives an empty branch.
    sql("ALTER TABLE db.`odd.name` CREATE BRANCH empty")
    assert sql("SHOW BRANCHES db.`odd.name`") == [["empty", None, None]]
    assert sql("SHOW SAVEPOINTS db.`odd.name`") == []


def test_what_cannot_be_is_refused_by_name_and_nothing_changes(catalog: Catalog, spark: SparkSession) -> None:
    table = catalog.table("db.t")
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(pa.table({"k": pa.array([9], pa.int32()), "v": ["9"]}))
    before = (table.tags(), [b.name for b in table.branches()])
    wrong: list[tuple[str, type[PaimonError], str]] = [
        ("ALTER TABLE db.t CREATE TAG v1", TagAlreadyExistsError, "already has a tag 'v1'"),
        ("ALTER TABLE db.t CREATE TAG v2 AS OF VERSION 9", SnapshotNotFoundError, "9"),
        ("ALTER TABLE db.t CREATE TAG v2 AS OF VERSION -1", PaimonError, "-1"),
        ("ALTER TABLE db.t CREATE TAG v2 AS OF VERSION 'v'", VersionNotFoundError, "did you mean 'v1'"),
        ("ALTER TABLE db.t CREATE TAG v2 AS OF VERSION 'fix.v9'", VersionNotFoundError, "fix"),
        ("ALTER TABLE db.t MERGE BRANCH fix", BranchDivergedError, "snapshots 2, 3.*Use CALL sys.merge_branch to"),
        ("ALTER TABLE db.t CREATE TAG v2 RETAIN 0 DAYS", InvalidInputError, "must be positive"),
        ("ALTER TABLE db.t CREATE TAG `7`", InvalidInputError, "a number means a snapshot id"),
        ("ALTER TABLE db.t CREATE TAG `savepoint-1`", InvalidInputError, "create_savepoint"),
        ("ALTER TABLE db.t RENAME TAG v1 TO `fix.v1`", InvalidInputError, "on branch 'fix'"),
        ("ALTER TABLE db.t RENAME TAG v2 TO v3", TagNotFoundError, "its tags are .*v1"),
        ("ALTER TABLE db.t DELETE TAG v2", TagNotFoundError, "its tags are .*v1"),
        ("ALTER TABLE db.t CREATE BRANCH fix", BranchAlreadyExistsError, "'fix'"),
        ("ALTER TABLE db.t CREATE BRANCH main", InvalidInputError, "main is always there"),
        ("ALTER TABLE db.t CREATE BRANCH `tag-name`", InvalidInputError, "versions are written with the word"),
        ("ALTER TABLE db.t CREATE BRANCH b FROM TAG v9", TagNotFoundError, "v9"),
        ("ALTER TABLE db.t CREATE BRANCH b RETAIN 7 DAYS", UnsupportedFeatureError, "snapshot.time-retained"),
        ("ALTER TABLE db.t REPLACE BRANCH fix AS OF VERSION 2", UnsupportedFeatureError, "DROP BRANCH `fix`"),
        ("ALTER TABLE db.t REPLACE BRANCH fxi AS OF VERSION 2", BranchNotFoundError, "did you mean 'fix'"),
        ("ALTER TABLE db.t DROP BRANCH fxi", BranchNotFoundError, "fix"),
        ("ALTER TABLE db.t DROP BRANCH main", InvalidInputError, "main"),
        ("ALTER TABLE db.t$branch_nix CREATE TAG v2", BranchNotFoundError, "fix"),
        ("ALTER TABLE db.t$tags CREATE TAG v2", InvalidInputError, "system table"),
        ("ALTER TABLE db.tt CREATE TAG v2", TableNotFoundError, "did you mean 't'"),
        ("SHOW TAGS db.tt", TableNotFoundError, "did you mean 't'"),
    ]
    for text, kind, said in wrong:
        with refused(catalog, kind, match=said):
            catalog.sql(text, session=spark)
    assert (table.tags(), [b.name for b in table.branches()]) == before
