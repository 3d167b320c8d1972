"""Opening a table: latest schema, options, branches, data directory and error messages."""

from __future__ import annotations

import json
import pickle

import pytest

from paimon_spark.errors import (
    BranchNotFoundError,
    CorruptFileError,
    InvalidOptionError,
    TableNotFoundError,
    UnknownFormatVersionError,
)
from paimon_spark.format.metadata_files.table_schema import encode
from paimon_spark.metadata import small_files
from paimon_spark.metadata.handle import open_branch, open_table
from paimon_spark.metadata.schemas import read_schema, schemas_by_id
from tests.harness.tables import MetadataTable, a_schema


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", (0, 0))


def test_opens_the_latest_schema() -> None:
    table = MetadataTable().schema(a_schema(0)).schema(a_schema(9)).schema(a_schema(10, options={"bucket": "4"}))
    handle = table.open()
    assert handle.schema.id == 10
    assert handle.options.bucket == 4
    assert handle.name == "db.t"
    assert handle.branch == "main"
    assert handle.location == f"memory://{table.root}"
    assert pickle.loads(pickle.dumps(handle)) == handle


def test_other_files_in_the_schema_directory_do_not_count() -> None:
    table = MetadataTable().schema(a_schema(1))
    for name in (".schema-2.abc.tmp", "schema-3abc.tmp", "schema-", "schema--4", "schema-٤"):
        table.put(f"{table.root}/schema/{name}", b"garbage")
    assert table.open().schema.id == 1


def test_options_of_a_read_override_the_stored_ones() -> None:
    table = MetadataTable().schema(a_schema(options={"num-levels": "3", "file.format": "orc"}))
    handle = table.open(num_levels="7")
    assert handle.options.num_levels == 7
    assert handle.options.raw["file.format"] == "orc"
    assert handle.overrides == {"num-levels": "7"}
    assert handle.schema.options["num-levels"] == "3"


def test_a_branch_has_its_own_schema_and_keeps_the_overrides() -> None:
    table = MetadataTable().schema(a_schema(0))
    table.schema(a_schema(0), "fix").schema(a_schema(1, options={"num-levels": "5"}), "fix")
    main = table.open(num_sorted_run="x")
    fix = open_branch(main, "fix")
    assert (fix.branch, fix.schema.id, fix.options.num_levels) == ("fix", 1, 5)
    assert fix.overrides == main.overrides
    assert open_branch(fix, "main") == main
    assert open_branch(main, "main") is main


def test_the_data_directory_comes_from_the_options() -> None:
    table = MetadataTable().schema(a_schema(options={"data-file.path-directory": "data"}))
    assert table.open().layout.bucket_path("", 0) == f"{table.root}/data/bucket-0"


def test_a_data_directory_outside_is_refused() -> None:
    table = MetadataTable().schema(a_schema(options={"data-file.path-directory": "../../x"}))
    with pytest.raises(InvalidOptionError, match=r"data-file\.path-directory"):
        table.open()


def test_no_table_says_what_was_looked_for() -> None:
    table = MetadataTable()
    with pytest.raises(TableNotFoundError, match=r"schema/schema-0.*nothing exists there"):
        table.open()


def test_no_table_offers_the_near_ones() -> None:
    table = MetadataTable().schema()
    for wrong in ("tt", "T"):
        with pytest.raises(TableNotFoundError, match=r"did you mean memory:///.*/db\.db/t\?"):
            open_table(table.store, table.root[:-1] + wrong)


def test_a_folder_of_tables_says_so() -> None:
    table = MetadataTable().schema()
    database, _, _ = table.root.rpartition("/")
    with pytest.raises(TableNotFoundError, match=r"folder of tables \(t\); name one"):
        open_table(table.store, database)
    with pytest.raises(TableNotFoundError, match=r"warehouse \(db\.db\)"):
        open_table(table.store, database.rpartition("/")[0])


def test_no_branch_lists_those_there_are() -> None:
    table = MetadataTable().schema().schema(branch="fix").schema(branch="dev")
    with pytest.raises(
        BranchNotFoundError, match=r"no branch 'fx'; did you mean 'fix'\?; its branches are main, dev, fix"
    ):
        table.open("fx")


def test_a_branch_of_no_table_is_no_table() -> None:
    with pytest.raises(TableNotFoundError):
        MetadataTable().open("fix")


@pytest.mark.parametrize("content", [b"", b"  \n", b"main"])
def test_a_blank_main_branch_means_the_own_directory(content: bytes) -> None:
    table = MetadataTable().schema()
    table.put(f"{table.root}/MAIN-BRANCH", content)
    assert table.open().layout.branch_root == table.root


def test_main_may_be_promoted() -> None:
    table = MetadataTable().schema(a_schema(3), "fix").schema(a_schema(0), "other")
    table.put(f"{table.root}/MAIN-BRANCH", b"fix\n")
    assert table.open().schema.id == 3
    assert table.open().branch == "main"
    assert table.open("fix").schema.id == 3
    assert table.open("other").schema.id == 0


@pytest.mark.parametrize("content", [b"../x", b"a/b", b"\xff/"])
def test_a_main_branch_that_is_a_path_is_corruption(content: bytes) -> None:
    table = MetadataTable().schema()
    table.put(f"{table.root}/MAIN-BRANCH", content)
    with pytest.raises(CorruptFileError, match="MAIN-BRANCH"):
        table.open()


def test_a_promoted_branch_that_is_gone_says_so() -> None:
    table = MetadataTable().schema()
    table.put(f"{table.root}/MAIN-BRANCH", b"gone")
    with pytest.raises(TableNotFoundError, match=r"MAIN-BRANCH.*'gone'"):
        table.open()


def test_a_broken_schema_names_its_file() -> None:
    table = MetadataTable()
    table.put(f"{table.root}/schema/schema-0", b'{"id": 0')
    with pytest.raises(CorruptFileError, match="schema/schema-0"):
        table.open()


def test_a_schema_that_is_being_written_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MetadataTable()
    path = table.layout().schema_path(0)
    table.put(path, b'{"id": 0')

    def finish(seconds: float) -> None:
        table.put(path, encode(a_schema()))

    assert small_files.read_decoded(table.store, path, lambda d, p: json_or_corrupt(d), finish) == 0


def json_or_corrupt(data: bytes) -> int:
    try:
        return int(json.loads(data)["id"])
    except ValueError as e:
        raise CorruptFileError(str(e)) from e


def test_a_schema_of_the_future_is_refused() -> None:
    table = MetadataTable()
    raw = json.loads(encode(a_schema()))
    table.put(f"{table.root}/schema/schema-0", json.dumps({**raw, "version": 4}).encode())
    with pytest.raises(UnknownFormatVersionError, match=r"version 4.*newer paimon-spark"):
        table.open()


def test_a_schema_under_another_id_is_corruption() -> None:
    table = MetadataTable()
    table.put(table.layout().schema_path(1), encode(a_schema(0)))
    with pytest.raises(CorruptFileError, match="schema-1"):
        table.open()


def test_schemas_by_id_are_fetched_once_each() -> None:
    table = MetadataTable().schema(a_schema(0)).schema(a_schema(1)).schema(a_schema(2))
    found = schemas_by_id(table.open(), [1, 2, 1])
    assert {i: s.id for i, s in found.items()} == {1: 1, 2: 2}
    assert schemas_by_id(table.open(), []) == {}


def test_schemas_an_old_branch_lacks_are_those_of_main() -> None:
    table = MetadataTable().schema(a_schema(0)).schema(a_schema(1)).schema(a_schema(1), "fix")
    fix = table.open("fix")
    assert set(schemas_by_id(fix, [0, 1])) == {0, 1}
    assert read_schema(fix.store, fix.layout, 0).id == 0


def test_a_missing_schema_names_its_file() -> None:
    handle = MetadataTable().schema(a_schema(4)).open()
    with pytest.raises(CorruptFileError, match=r"schema/schema-3 is missing.*\[4\]"):
        schemas_by_id(handle, [3, 4])
