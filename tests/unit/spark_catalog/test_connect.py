"""Attached catalogs of sessions of Spark Connect, without a server: who has which, and what columns say."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs grpcio")

from datetime import date
from decimal import Decimal

from pyspark.sql.connect import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import InvalidInputError
from paimon_spark.spark.session import without_attached
from paimon_spark.spark_catalog.connect import attached, hooks
from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs
from paimon_spark.spark_catalog.connect.expressions import bucket, column_name, partition_condition

ANY: Any = SimpleNamespace(client=None)
ONE, TWO = Catalog("/one"), Catalog("/two")


class Session:
    """What is hashed and referred to weakly as a session is."""


class Reader:
    """What has a session, and a method with a name."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def table(self, name: str, *, option: str = "") -> str:
        return f"Spark's {name}{option}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lake.db.t", True),
        ("LAKE.db.t", True),
        ("`lake`.db.t", True),
        ("SELECT * FROM lake.db.t", True),
        ("db.lake", True),
        ("db.flake", False),
        ("SELECT * FROM t", False),
        ("SHOW CATALOGS", True),
        ("SELECT * FROM IDENTIFIER(:n)", True),
        ("EXECUTE IMMEDIATE q", True),
        ("SET spark.paimon.branch = b", True),
        (None, False),
        (5, False),
    ],
)
def test_most_statements_of_spark_are_not_looked_at(text: Any, expected: bool) -> None:
    assert AttachedCatalogs({"lake": ONE}).may_name(text) is expected
    assert AttachedCatalogs({"lake": ONE}, ("lake", "db")).may_name(text) is isinstance(text, str)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lake.db.t$branch_x", ("lake", "db", "t$branch_x")),
        ("lake.`d b`.t", ("lake", "d b", "t")),
        ("lake.db.t#savepoints", ("lake", "db", "t$savepoints")),
        ("lake.db.t VERSION AS OF 1", None),
        ("lake.", None),
        ("", None),
        ("db.t", None),
    ],
)
def test_names_that_cannot_be_of_the_catalogs_are_sparks(text: str, parts: tuple[str, ...] | None) -> None:
    assert AttachedCatalogs({"lake": ONE}).parts(text) == parts


def test_sessions_have_catalogs_of_their_own_and_are_not_kept_alive() -> None:
    session, other = Session(), Session()
    attached.add(session, "lake", ONE)  # type: ignore[arg-type]
    attached.add(session, "paimon", ONE)  # type: ignore[arg-type]
    attached.add(session, "lake", TWO)  # type: ignore[arg-type]
    found = attached.attached_to(session)  # type: ignore[arg-type]
    assert found is not None
    assert dict(found.catalogs) == {"lake": TWO, "paimon": ONE}
    assert attached.attached_to(other) is None  # type: ignore[arg-type]

    found.used.names = ("lake", "db")
    attached.follow(other, found, keeps_current=True)  # type: ignore[arg-type]
    attached.remove(session, "paimon")  # type: ignore[arg-type]
    assert attached.attached_to(session).used.names == ("lake", "db")  # type: ignore[arg-type,union-attr]
    attached.remove(session, "lake")  # type: ignore[arg-type]
    assert attached.attached_to(session) is None  # type: ignore[arg-type]
    assert attached.names_attached_to(other) == ("lake", "paimon")  # type: ignore[arg-type]
    attached.remove(other, "lake")  # type: ignore[arg-type]
    assert attached.attached_to(other).used.names is None  # type: ignore[arg-type,union-attr]
    with pytest.raises(InvalidInputError, match="attached are paimon"):
        hooks.detach_from(other, "lake")  # type: ignore[arg-type]

    alive = weakref.ref(other)
    del other
    gc.collect()
    assert alive() is None


def test_methods_are_sparks_without_catalogs() -> None:
    def hook(found: AttachedCatalogs, spark_call: Any, reader: Reader, name: str, **named: str) -> str:
        assert isinstance(reader, Reader)
        return f"ours {name} of {', '.join(found.catalogs)}, not {spark_call(name, **named)}"

    call: Any = hooks._wrapped(Reader.table, lambda reader: reader.session, hook)
    session = Session()
    reader = Reader(session)
    assert call(reader, "t") == "Spark's t"
    attached.add(session, "lake", ONE)  # type: ignore[arg-type]
    assert call(reader, name="t", option="!") == "ours t of lake, not Spark's t!"
    with without_attached():
        assert call(reader, "t") == "Spark's t"
    assert call(Reader(Session()), "t") == "Spark's t"
    assert call.__name__ == "table"


def test_every_method_is_one_of_pyspark() -> None:
    newer = {"newSession", "changes", "createDatabase", "dropDatabase", "listViews", "listPartitions", "dropTable"}
    newer |= {"getTableProperties", "getCreateTableString", "truncateTable", "analyzeTable"}
    for owner, (_, methods) in hooks._HOOKS.items():
        missing = {method for method in methods if not hasattr(owner, method)}
        assert missing <= newer, (owner, missing)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (F.col("dt") == "it's", "`dt` = 'it\\'s'"),
        (F.lit("x") == F.col("dt"), "`dt` = 'x'"),
        (F.col("dt").eqNullSafe(F.lit("x")), "`dt` = 'x'"),
        (F.col("t.`d t`") == 5, "`d t` = 5"),
        ((F.col("a") == 1) & (F.col("b") == date(2025, 1, 2)), "`a` = 1 AND `b` = DATE '2025-01-02'"),
        ((F.col("a") == Decimal("1.5")) & F.lit(True), "`a` = 1.5BD"),
        (F.col("a") == F.lit(True), "`a` = TRUE"),
        (F.lit(True), "TRUE"),
        (F.lit(True) & F.lit(True), "TRUE"),
        (F.expr("dt = 'x'"), "dt = 'x'"),
        (F.col("a") == F.col("b"), None),
        (F.col("a") > 1, None),
        ((F.col("a") == 1) | (F.col("b") == 2), None),
        ((F.col("a") == 1) & (F.col("b") > 2), None),
        (F.col("a") == F.upper(F.lit("x")), None),
        (F.upper("a") == "x", None),
        (F.lit(False), None),
    ],
)
def test_conditions_of_partitions(column: Any, expected: str | None) -> None:
    assert partition_condition(ANY, column) == expected


def test_columns_and_buckets() -> None:
    assert column_name(ANY, F.col("dt")) == "dt"
    assert column_name(ANY, F.partitioning.years("dt")) is None
    assert bucket(ANY, F.partitioning.bucket(4, "id")) == (4, "id")
    assert bucket(ANY, F.partitioning.years("dt")) is None
    assert bucket(ANY, F.col("id")) is None
