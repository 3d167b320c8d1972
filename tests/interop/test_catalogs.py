"""Metastores that Java Paimon and this package share: each sees, reads and changes what the other made."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import UnsupportedFeatureError
from tests.interop import peers
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon
from tests.stores import servers

pytestmark = pytest.mark.interop

FIELDS = [["k", "BIGINT NOT NULL"], ["v", "STRING"]]


@pytest.fixture(scope="module")
def java_with_drivers() -> Iterator[JavaPaimon]:
    with JavaPaimon(more_jars=f"{peers.drivers()}:{peers.jars_folder()}") as peer:
        yield peer


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "postgresql-locked", "hive", "hive-locked", "rest"])
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options that reach a metastore. With locks in SQLite, Java's own commits fail: its connections wait in vain."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path_factory.mktemp('sqlite')}/names.db"}
        elif request.param == "rest":
            yield stack.enter_context(servers.rest())
        elif request.param.startswith("hive"):
            locked = "true" if request.param == "hive-locked" else "false"
            yield {"metastore": "hive", "uri": stack.enter_context(servers.hive()), "lock.enabled": locked}
        else:
            address = stack.enter_context(servers.postgresql())
            locked = "true" if request.param == "postgresql-locked" else "false"
            login = {"jdbc.user": "paimon", "jdbc.password": "paimon"}
            yield {"metastore": "jdbc", "uri": address, "lock.enabled": locked, **login}


class Both:
    """A catalog as both open it, with one database."""

    def __init__(self, java: JavaPaimon, options: dict[str, str]) -> None:
        self.java, self.options = java, options
        self.ours: Catalog = paimon_spark.load_catalog(**options)
        self.database = f"d{uuid.uuid4().hex[:8]}"

    @property
    def follows_renames(self) -> bool:
        """Whether a renamed table is found where it is: Java's server of REST catalogs, a test of its own, forgets."""
        return self.options["metastore"] != "rest"

    def theirs(self, op: str, **arguments: Any) -> Any:
        return self.java.call(op, catalog={**self.options, "cache-enabled": "false"}, **arguments)

    def do(self, does: str, **arguments: Any) -> Any:
        return self.theirs("catalog", does=does, **arguments)

    def name(self, table: str) -> str:
        return f"{self.database}.{table}"

    def java_rows(self, table: str, **arguments: Any) -> list[Any]:
        return sorted(self.theirs("read", table=self.name(table), **arguments)["rows"], key=str)

    def our_rows(self, table: str) -> list[dict[str, Any]]:
        return sorted(self.ours.table(self.name(table)).scan().to_arrow().to_pylist(), key=str)

    def make_by_java(self, table: str, rows: list[list[Any]]) -> None:
        key = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1"}}
        self.theirs("createTable", table=self.name(table), fields=FIELDS, **key)
        self.theirs("write", table=self.name(table), rows=rows)


@pytest.fixture
def both(java_with_drivers: JavaPaimon, metastore: dict[str, str], tmp_path: Path) -> Both:
    return Both(java_with_drivers, {"warehouse": str(tmp_path), "catalog-key": uuid.uuid4().hex[:8], **metastore})


def test_java_makes_we_change(both: Both) -> None:
    both.do("createDatabase", database=both.database)
    both.make_by_java("t", [[1, "a"], [2, "b"]])
    assert both.database in both.ours.list_databases()
    assert both.ours.list_tables(both.database) == ["t"]
    table = both.ours.table(both.name("t"))
    table.create_tag("before")
    table.create_branch("fix", tag="before")
    table.write(pa.table({"k": [2, 3], "v": ["B", "c"]}))
    table.alter(add={"w": "INT"})
    both.ours.table(both.name("t$branch_fix")).write(pa.table({"k": [9], "v": ["z"]}))
    assert both.java_rows("t") == [
        {"k": 1, "v": "a", "w": None},
        {"k": 2, "v": "B", "w": None},
        {"k": 3, "v": "c", "w": None},
    ]
    assert both.java_rows("t", branch="fix") == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 9, "v": "z"}]
    assert [row["v"] for row in both.java_rows("t", options={"scan.tag-name": "before"})] == ["a", "b"]
    table.delete_branch("fix")  # the server of REST catalogs forgets to rename the branches of a table
    both.ours.rename_table(both.name("t"), both.name("u"))
    assert both.do("listTables", database=both.database)["names"] == ["u"]
    if both.follows_renames:
        assert len(both.java_rows("u")) == 3
    both.ours.drop_table(both.name("u"))
    assert both.do("listTables", database=both.database)["names"] == []
    both.ours.drop_database(both.database)
    assert both.database not in both.do("listDatabases")["names"]


def test_partitions_have_the_totals_that_java_sees(both: Both) -> None:
    both.do("createDatabase", database=both.database)
    fields = [["k", "BIGINT NOT NULL"], ["d", "DATE NOT NULL"], ["p", "STRING NOT NULL"]]
    options = {"bucket": "2", "partition.legacy-name": "false"}
    key = {"pk": ["k", "d", "p"], "partition": ["d", "p"], "tableOptions": options}
    both.theirs("createTable", table=both.name("t"), fields=fields, **key)
    day = "2024-10-04"
    both.theirs("write", table=both.name("t"), rows=[[1, day, "a"], [2, day, "a/b"], [3, "2024-10-05", "a"]])
    table = both.ours.table(both.name("t"))
    days = pa.array([20000, 20000, 20002], pa.int32()).cast(pa.date32())
    table.write(pa.table({"k": [1, 4, 5], "d": days, "p": ["a", "a", " "]}))
    table.delete("d = DATE '2024-10-05'")
    table.compact(full=True)
    before_ms = int(time.time() * 1000)
    table.write(pa.table({"k": [6], "d": days[:1], "p": ["a"]}))

    shown = both.ours.table(both.name("t$partitions")).scan().to_arrow().to_pylist()
    expected = {row["partition"]: (row["record_count"], row["file_size_in_bytes"], row["file_count"]) for row in shown}
    assert len(expected) == 3
    found = both.do("listPartitions", database=both.database, table="t")["partitions"]
    texts = {"/".join(f"{k}={v}" for k, v in one["spec"].items()): one for one in found}
    assert {name: (one["rows"], one["bytes"], one["files"]) for name, one in texts.items()} == expected
    newest = max(texts.values(), key=lambda one: one["updated_ms"])
    assert before_ms <= newest["updated_ms"] <= time.time() * 1000
    assert {one["buckets"] for one in found} == {2}


def test_views_are_shared(both: Both) -> None:
    both.ours.create_database(both.database)
    if both.options["metastore"] == "hive":
        with pytest.raises(UnsupportedFeatureError, match="holds no views"):
            both.ours.create_view(both.name("v"), "SELECT 1", columns="a INT")
        return
    both.do("createView", database=both.database, view="theirs", query="SELECT k FROM t WHERE k > 1")
    found = both.ours.view(both.name("theirs"))
    assert (found.query, found.comment, found.options) == ("SELECT k FROM t WHERE k > 1", "of Java", {"a": "b"})
    assert [(f.name, str(f.type)) for f in found.row_type] == [("k", "BIGINT")]
    both.ours.create_view(both.name("ours"), "SELECT k, v FROM t", columns="k BIGINT, v STRING", comment="of Python")
    assert both.do("listViews", database=both.database)["names"] == ["ours", "theirs"]
    seen = both.do("getView", database=both.database, view="ours")
    assert (seen["query"], seen["comment"]) == ("SELECT k, v FROM t", "of Python")
    assert "`k` BIGINT" in seen["columns"] and "`v` STRING" in seen["columns"]
    both.ours.create_view(both.name("ours"), "SELECT v FROM t", columns="v STRING", replace=True)
    seen = both.do("getView", database=both.database, view="ours")
    assert seen["query"] == "SELECT v FROM t" and "`k`" not in seen["columns"]
    both.do("dropView", database=both.database, view="ours")
    both.ours.drop_view(both.name("theirs"))
    assert both.ours.list_views(both.database) == both.do("listViews", database=both.database)["names"] == []


def test_we_make_java_changes(both: Both) -> None:
    both.ours.create_database(both.database)
    table = both.ours.create_table(
        both.name("t"), "k BIGINT NOT NULL, v STRING", primary_keys=["k"], options={"bucket": "1"}
    )
    table.write(pa.table({"k": [1, 2], "v": ["a", "b"]}))
    assert both.database in both.do("listDatabases")["names"]
    assert both.do("listTables", database=both.database)["names"] == ["t"]
    both.theirs("createTag", table=both.name("t"), name="before", snapshot=1)
    both.theirs("createBranch", table=both.name("t"), name="fix", tag="before")
    both.theirs("write", table=both.name("t"), rows=[[2, "B"], [3, "c"]])
    both.theirs("write", table=both.name("t"), branch="fix", rows=[[9, "z"]])
    both.theirs("alter", table=both.name("t"), changes=[{"do": "add", "name": "w", "type": "INT"}])
    assert [row["v"] for row in both.our_rows("t")] == ["a", "B", "c"]
    assert both.our_rows("t")[0].keys() == {"k", "v", "w"}
    assert [row["v"] for row in both.our_rows("t$branch_fix")] == ["a", "b", "z"]
    both.theirs("deleteBranch", table=both.name("t"), name="fix")
    both.do("renameTable", table=both.name("t"), to=both.name("u"))
    assert both.ours.list_tables(both.database) == ["u"]
    if both.follows_renames:
        assert len(both.our_rows("u")) == 3
    both.do("dropTable", database=both.database, table="u")
    assert both.ours.list_tables(both.database) == []
    both.do("dropDatabase", database=both.database)
    assert both.database not in both.ours.list_databases()


def test_pypaimon_beside_a_rest_catalog(tmp_path: Path) -> None:
    with servers.rest() as options, closing(PyPaimon()) as pypaimon:

        def theirs(op: str, **arguments: Any) -> Any:
            return pypaimon.call(op, catalog=options, table="d.t", **arguments)

        theirs("createTable", columns={"k": "int64", "v": "string"}, primaryKeys=["k"], tableOptions={"bucket": "1"})
        theirs("write", rows=[[1, "a"], [2, "b"]])
        ours = paimon_spark.load_catalog(**options)
        assert (ours.list_databases(), ours.list_tables("d")) == (["d"], ["t"])
        table = ours.table("d.t")
        table.create_tag("before")
        table.write(pa.table({"k": [2, 3], "v": ["B", "c"]}))
        assert [row["v"] for row in theirs("read")["rows"]] == ["a", "B", "c"]
        theirs("createTag", name="theirs")
        theirs("createBranch", name="fix", tag="theirs")
        ours.table("d.t$branch_fix").write(pa.table({"k": [1], "v": ["A"]}))
        theirs("write", rows=[[4, "d"]], branch="fix")
        found = ours.table("d.t$branch_fix").scan().to_arrow().to_pylist()
        assert sorted(row["v"] for row in found) == ["A", "B", "c", "d"]
        assert sorted(tag.name for tag in ours.table("d.t").tags(include_internal=True)) == ["before", "theirs"]
        ours.drop_table("d.t")
        assert "error" in pypaimon.attempt("read", catalog=options, table="d.t")


def test_writers_of_a_rest_catalog(tmp_path: Path) -> None:
    """Processes of ours and Java's at once: each row that was committed is there once."""
    with servers.rest() as options, JavaPaimon() as java:
        catalog = paimon_spark.load_catalog(**options)
        catalog.create_database("d")
        catalog.create_table("d.t", "k BIGINT, v STRING")

        def write(number: int) -> None:
            table = catalog.table("d.t")
            for i in range(10):
                table.write(pa.table({"k": [number * 100 + i], "v": ["x"]}))

        writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for writer in writers:
            writer.start()
        for i in range(10):
            java.call("write", catalog={**options, "cache-enabled": "false"}, table="d.t", rows=[[900 + i, "x"]])
        for writer in writers:
            writer.join()
        found = sorted(catalog.table("d.t").scan().to_arrow()["k"].to_pylist())
        assert found == sorted(n * 100 + i for n in (0, 1, 2, 9) for i in range(10))
        assert [s.id for s in catalog.table("d.t").snapshots()] == list(range(1, 41))
