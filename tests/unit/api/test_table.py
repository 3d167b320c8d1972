"""`Table` and `Scan`: versions, branches, columns, conditions, statistics and error messages."""

from __future__ import annotations

import inspect
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Lineage, Scan, Table
from paimon_spark.display import ShownList
from paimon_spark.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    PaimonError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tests.harness.golden import golden_path
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table

BRANCHES = golden_path("branches")


@pytest.fixture
def table() -> paimon_spark.Table:
    return paimon_spark.load_table(str(BRANCHES))


def test_a_table_lists_what_it_has(table: paimon_spark.Table) -> None:
    assert [s.id for s in table.snapshots()] == [1, 2]
    assert [t.name for t in table.tags()] == ["t1"]
    assert {"altered", "empty", "from_tag", "untouched"} <= {b.name for b in table.branches()}
    assert table.savepoints() == []
    assert table.location == BRANCHES.as_uri()
    assert table.branch_name == "main"


def test_versions_are_given_as_one_thinks_of_them(tmp_path: Path) -> None:
    table = a_table("id INT", where=tmp_path)
    for i in range(3):
        table.write(pa.table({"id": pa.array([i], pa.int32())}))
    assert table.create_tag("x", 2).snapshot.id == 2
    assert table.replace_tag("x", "snapshot.3").snapshot.id == 3
    table.create_branch("b", snapshot=2)
    table.create_branch("c", snapshot="x")
    assert [table.branch(name).snapshots()[-1].id for name in "bc"] == [2, 3]
    shown = table.snapshots()
    assert isinstance(shown, ShownList) and "oldest first" in shown.title
    assert [s.id for s in shown] == [1, 2, 3]
    later = timedelta(days=1)
    assert table.expire_tags(later).tags == () and table.expire_tags("1 d", dry_run=True).tags == ()
    assert table.expire_tags("0 s", dry_run=True).tags == ("x",)


@pytest.mark.parametrize("method", ["create_tag", "create_branch", "merge_branch", "compact", "expire_tags", "at"])
def test_errors_of_wrong_arguments_name_the_public_class(table: paimon_spark.Table, method: str) -> None:
    with pytest.raises(TypeError, match=rf"^Table\.{method}\(\) got an unexpected keyword argument 'nope'"):
        getattr(table, method)(nope=1)
    with pytest.raises(TypeError, match=r"^Catalog\.create_view\(\) "):
        paimon_spark.load_catalog(str(BRANCHES.parent)).create_view(nope=1)  # type: ignore[call-arg]


def test_branches_and_versions_are_other_handles(table: paimon_spark.Table) -> None:
    head = table.scan().to_arrow().sort_by("k")
    tag = table.at("t1").scan().to_arrow().sort_by("k")
    assert not head.equals(tag)
    assert table.scan(version="t1").to_arrow().sort_by("k").equals(tag)
    assert table.scan(version=1).to_arrow().sort_by("k").equals(tag)
    assert table.scan(**keywords({"scan.snapshot-id": 1})).to_arrow().sort_by("k").equals(tag)
    assert table.at("t1").scan(**keywords({"scan.snapshot-id": 2})).to_arrow().sort_by("k").equals(head)
    branch = table.branch("from_tag")
    assert branch.branch_name == "from_tag"
    assert branch.scan().to_arrow().equals(table.at("from_tag").scan().to_arrow())
    assert table.scan(branch="from_tag").to_arrow().equals(branch.scan().to_arrow())
    assert branch.branch("main").scan().to_arrow().sort_by("k").equals(head)
    assert table.scan().to_arrow().sort_by("k").equals(head)


def test_a_branch_forgets_the_version(table: paimon_spark.Table) -> None:
    assert table.at("t1").branch("from_tag").scan().option_text == {"branch": "from_tag"}


def test_the_schema_is_that_of_the_version(tmp_path: Path) -> None:
    evolved = paimon_spark.load_table(str(golden_path("append_schema_evolution")))
    first = evolved.at("snapshot.1")
    assert first.schema.id < evolved.schema.id
    assert first.row_type != evolved.row_type
    assert first.scan().to_arrow().schema.names == list(first.row_type.names)


def test_columns_are_chosen_in_any_unambiguous_case(table: paimon_spark.Table) -> None:
    assert table.scan(columns=["V", "k"]).to_arrow().column_names == ["v", "k"]
    with pytest.raises(ColumnNotFoundError, match="no column 'vv'"):
        table.scan(columns=["vv"]).to_arrow()
    with pytest.raises(InvalidOptionError, match="'k' is named twice"):
        table.scan(columns=["k", "K"]).to_arrow()
    with pytest.raises(InvalidOptionError, match="expected a list"):
        table.scan(columns="k,v")


def test_where_filters_and_is_explained(table: paimon_spark.Table) -> None:
    scan = table.scan(where="k = 1")
    assert scan.to_arrow().column("k").to_pylist() == [1]
    assert "where: " in str(scan.plan())
    assert "files: " in str(scan.plan())


def test_a_read_of_all_partitions_can_be_forbidden(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", "id INT, dt STRING", partition_keys=["dt"])
    other = catalog.create_table("d.plain", "id INT")
    none_of_all = keywords({"read.allow.fullScan": False})
    assert table.scan(**none_of_all).to_arrow().num_rows == 0
    for to in (table, other):
        rows = pa.table({"id": pa.array([1, 2], pa.int32()), "dt": ["x", "y"]})
        to.write(rows.select(to.row_type.names))
    for where in (None, "id > 0"):
        with pytest.raises(InvalidInputError, match=r"takes all files of table d\.t, which option read"):
            table.scan(where=where, **none_of_all).to_arrow()
    assert table.scan(where="dt = 'x'", **none_of_all).to_arrow()["id"].to_pylist() == [1]
    assert table.scan(where="dt = 'z'", **none_of_all).to_arrow().num_rows == 0
    assert other.scan(**none_of_all).to_arrow().num_rows == 2
    with pytest.raises(InvalidOptionError, match="nope"):
        table.scan(**keywords({"read.allow.fullScan": "nope"})).to_arrow()


def test_batches_stream(table: paimon_spark.Table) -> None:
    batches = list(table.scan().to_batches())
    assert sum(b.num_rows for b in batches) == table.scan().to_arrow().num_rows
    assert all(b.schema.equals(table.scan().arrow_schema) for b in batches)


def test_a_scan_is_one_read_and_a_table_is_not(tmp_path: Path) -> None:
    home = tmp_path / "t"
    shutil.copytree(BRANCHES, home)
    for hint in ("LATEST", "EARLIEST"):
        (home / "snapshot" / hint).unlink(missing_ok=True)
    second = home / "snapshot" / "snapshot-2"
    hidden = second.rename(tmp_path / "later")
    table = paimon_spark.load_table(str(home))
    scan = table.scan()
    before = scan.to_arrow()
    hidden.rename(second)
    assert scan.to_arrow().equals(before)
    assert not table.scan().to_arrow().equals(before)


def test_a_table_sees_columns_added_after_it_was_opened(tmp_path: Path) -> None:
    home = tmp_path / "t"
    shutil.copytree(BRANCHES, home)
    table = paimon_spark.load_table(str(home))
    schema = json.loads((home / "schema" / "schema-0").read_text())
    schema["id"] = max(int(p.name.removeprefix("schema-")) for p in (home / "schema").glob("schema-*")) + 1
    schema["fields"].append({"id": 99, "name": "added", "type": "INT"})
    (home / "schema" / f"schema-{schema['id']}").write_text(json.dumps(schema))
    assert table.scan().to_arrow().column("added").null_count == table.scan().to_arrow().num_rows > 0


def test_handles_pickle(table: paimon_spark.Table) -> None:
    copy = pickle.loads(pickle.dumps(table.at("t1")))
    assert copy.scan().to_arrow().equals(table.at("t1").scan().to_arrow())
    scan = table.scan(columns=["k"], where="k > 0")
    rows = scan.to_arrow()
    sent = pickle.dumps(scan)
    assert len(sent) < 5000
    assert pickle.loads(sent).to_arrow().equals(rows)


def test_pandas_comes_on_request(table: paimon_spark.Table) -> None:
    pytest.importorskip("pandas")
    assert list(table.scan().to_pandas().columns) == ["k", "v"]


@pytest.mark.parametrize(
    ("path", "options", "error", "words"),
    [
        ("/nowhere/t", {}, TableNotFoundError, "/nowhere/t"),
        (f"{BRANCHES}$snapshotz", {}, InvalidOptionError, "'snapshots'"),
        (f"{BRANCHES}$branch_a", {"branch": "b"}, InvalidOptionError, "two branches"),
        (f"{BRANCHES}", {"branch": "form_tag"}, BranchNotFoundError, "'from_tag'"),
        (f"{BRANCHES}", {"wher": "x"}, InvalidOptionError, "'where'"),
    ],
)
def test_what_cannot_be_opened_says_why(
    path: str, options: dict[str, str], error: type[PaimonError], words: str
) -> None:
    with pytest.raises(error) as caught:
        paimon_spark.load_table(path, **options)
    assert words in str(caught.value)


def test_a_version_that_does_not_exist_names_the_nearest_and_the_range(table: paimon_spark.Table) -> None:
    with pytest.raises(VersionNotFoundError) as caught:
        table.at("t11").scan().to_arrow()
    assert "'t1'" in str(caught.value)
    assert "1 to 2" in str(caught.value)


def test_where_a_table_lies_is_not_for_a_scan(table: paimon_spark.Table) -> None:
    with pytest.raises(InvalidOptionError, match="give it to load_table"):
        table.scan(warehouse="/x")


IMPORTS = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_paimon, pyspark_paimon_py
assert pyspark_paimon.DefaultSource.name() == "paimon"
assert pyspark_paimon_py.DefaultSource.name() == "paimon_py"
heavy = {m.split(".")[0] for m in set(sys.modules) - before} - {"paimon_spark", "pyspark_paimon", "pyspark_paimon_py"}
print(sorted(heavy & {"pyarrow", "numpy", "fsspec", "fastavro", "sqlglot", "pandas"}))
"""
READS = """
import sys, pickle
import paimon_spark
for name in sys.argv[1:]:
    table = paimon_spark.load_table(name)
    assert table.scan(where="true").to_arrow().num_rows
print(sorted({"pandas", "pyspark"} & set(sys.modules)))
"""


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_spark_finds_the_sources_without_loading_anything_heavy() -> None:
    assert run(IMPORTS) == "[]"


@pytest.mark.ci
def test_reading_loads_neither_pandas_nor_pyspark() -> None:
    tables = ("append_all_types_parquet", "pk_lsm_levels", "pk_partial_update", "pk_deletion_vectors", "pk_orc")
    assert run(READS, *(str(golden_path(t)) for t in tables)) == "[]"


def subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    """The class and its subclasses in the module of errors."""
    if cls.__module__ == "paimon_spark.errors":
        yield cls
    for found in cls.__subclasses__():
        yield from subclasses(found)


def test_every_class_of_errors_is_public() -> None:
    for cls in subclasses(paimon_spark.PaimonError):
        assert getattr(paimon_spark, cls.__name__) is cls
        assert cls.__name__ in paimon_spark.__all__, "add it to the imports and __all__ of paimon_spark/__init__.py"


def methods(cls: type) -> Iterator[tuple[str, inspect.Signature]]:
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            yield f"{cls.__name__}.{name}", inspect.signature(member)


POSITIONAL = {
    "Table.diff": ["new"],
    "Table.create_tag": ["version"],
    "Table.replace_tag": ["version"],
    "Lineage.impact": ["snapshot"],
}
"""Optional parameters after the first that are positional: a version of what is named first, or the second of two."""


@pytest.mark.parametrize("cls", [Catalog, Table, Scan, Lineage], ids=lambda c: c.__name__)
def test_optional_arguments_after_the_first_are_given_by_name(cls: type) -> None:
    for name, signature in methods(cls):
        rest = [p for p in signature.parameters.values() if p.name != "self"][1:]
        positional = [p.name for p in rest if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty]
        assert positional == POSITIONAL.get(name, []), name


def test_arguments_are_called_as_the_documentation_calls_them() -> None:
    assert list(inspect.signature(Catalog.list_tables).parameters) == ["self", "db"]
    assert list(inspect.signature(Table.delete_savepoint).parameters) == ["self", "id", "dry_run"]
    assert (
        inspect.signature(Table.write).parameters["mode"].annotation.replace('"', "'")
        == "Literal['append', 'overwrite']"
    )


def test_the_public_names_are_these() -> None:
    errors = {cls.__name__ for cls in subclasses(paimon_spark.PaimonError)}
    assert sorted(set(paimon_spark.__all__) - (errors - {"PaimonError"})) == [
        "Branch",
        "Catalog",
        "CommitEvent",
        "CommitListener",
        "CompactResult",
        "Diff",
        "Finding",
        "History",
        "Lineage",
        "MergeResult",
        "PaimonError",
        "Picture",
        "Pipeline",
        "PipelineBranch",
        "Release",
        "Removed",
        "RowDiff",
        "Savepoint",
        "Scan",
        "Table",
        "TableStatus",
        "TagInfo",
        "View",
        "WriteResult",
        "__version__",
        "attach",
        "configure_session",
        "detach",
        "load_catalog",
        "load_table",
        "register",
    ]
    assert all(getattr(paimon_spark, name) for name in paimon_spark.__all__)
    assert len(set(paimon_spark.__all__)) == len(paimon_spark.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        paimon_spark.nothing  # noqa: B018
