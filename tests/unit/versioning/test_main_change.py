"""Snapshots and rows that main loses and gains by a publication, by partition."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import FileMissingError
from paimon_spark.versioning import main_change
from paimon_spark.versioning.main_change import MainChange, PartitionRows, change_json, decode_change
from tests.harness.real_tables import a_table
from tests.unit.versioning.publishing import files, new_table, put


def put_day(table: Table, day: str, count: int) -> None:
    table.write(pa.table({"dt": [day] * count, "v": pa.array(range(count), pa.int64())}))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: days 1 and 2. Branch `fix`: day 2 with two rows in place of four. Main since: day 3, one more row of 2."""
    made = a_table("dt STRING, v BIGINT", by="dt", where=tmp_path / "wh")
    put_day(made, "d1", 3)
    put_day(made, "d2", 4)
    made.create_branch("fix")
    put_day(made, "d3", 5)
    put_day(made, "d2", 1)
    made.branch("fix").delete("dt = 'd2'")
    put_day(made.branch("fix"), "d2", 2)
    return made


LOST = MainChange(2, 2, 10, 2, (PartitionRows("dt=d3", 5, 0), PartitionRows("dt=d2", 5, 2)))
"""What main loses and gains when the branch replaces it."""


def test_a_day_that_main_got_meanwhile_is_told_before_it_is_lost(table: Table) -> None:
    before = files(table)
    planned = table.merge_branch("fix", if_main_moved="replace", dry_run=True)
    assert files(table) == before and planned.change == LOST
    assert str(planned).splitlines()[-3:] == [
        "rows: main would lose 10 and gain 2", "  dt=d3: 5 lost", "  dt=d2: 5 lost, 2 gained",
    ]  # fmt: skip
    done = table.merge_branch("fix", if_main_moved="replace")
    assert done.change == LOST and "rows: main lost 10 and gained 2\n" in str(done)
    undone = table.undo()
    back = (PartitionRows("dt=d2", 2, 5), PartitionRows("dt=d3", 0, 5))
    assert undone.change == MainChange(2, 2, 2, 10, back)
    assert str(undone).endswith(
        "\nnext: correct the branch and publish it again, or undo once more to take this undo back"
    )
    put_day(table.branch("fix"), "d1", 1)
    again = table.merge_branch("fix", if_main_moved="replace")
    assert again.change == MainChange(2, 3, 10, 3, (*LOST.partitions, PartitionRows("dt=d1", 0, 1)))


def test_compactions_lose_and_gain_no_rows(table: Table) -> None:
    put_day(table, "d1", 1)
    table.compact(full=True)
    table.branch("fix").compact(full=True)
    found = table.merge_branch("fix", if_main_moved="replace", dry_run=True).change
    assert found is not None
    assert (found.rows_lost, found.rows_gained) == (11, 2)
    by_day = {p.partition: (p.lost, p.gained) for p in found.partitions}
    assert by_day == {"dt=d1": (1, 0), "dt=d2": (5, 2), "dt=d3": (5, 0)}


def test_where_commits_have_expired_the_files_of_both_heads_are_compared(table: Table) -> None:
    put_day(table, "d4", 1)
    table.expire_snapshots(1, retain_min=1)
    found = table.merge_branch("fix", if_main_moved="replace", dry_run=True).change
    assert found is not None
    assert (found.rows_lost, found.rows_gained) == (11, 2)


def test_a_fast_forward_back_and_a_replaced_main_say_it_too(table: Table) -> None:
    table.create_branch("early", tag=table.create_tag("first", snapshot_id=1).name)
    assert table.fast_forward("early", dry_run=True).change == MainChange(
        3, 0, 10, 0, (PartitionRows("dt=d2", 5, 0), PartitionRows("dt=d3", 5, 0))
    )
    planned = table.replace_main("fix", dry_run=True)
    assert planned.change is not None and planned.change.partitions == LOST.partitions
    assert "rows: main would lose 10 and gain 2\n" in str(planned)


def test_records_of_keys_are_called_so(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    put(table, k1="a", k2="b")
    table.create_branch("fix")
    put(table, k1="c")
    put(table.branch("fix"), k1="d", k2="e")
    done = table.merge_branch("fix", if_main_moved="replace")
    assert done.change == MainChange(1, 1, 1, 2, are_records=True)
    assert str(done).endswith("\nrows: main lost 1 and gained 2 (stored records; a row may have several)")


def test_rows_that_deletion_vectors_delete_count(tmp_path: Path) -> None:
    table = a_table("v BIGINT", options={"deletion-vectors.enabled": "true"}, where=tmp_path / "wh")
    table.write(pa.table({"v": pa.array(range(10), pa.int64())}))
    table.create_branch("fix")
    table.delete("v < 3")
    table.branch("fix").delete("v = 9")
    assert table.merge_branch("fix", if_main_moved="replace").change == MainChange(1, 1, 0, 2), "net of the same file"


def test_the_text_is_short_for_many_partitions_with_long_names(tmp_path: Path) -> None:
    table = a_table("p STRING, v BIGINT", by="p", where=tmp_path / "wh")
    table.create_branch("fix")
    names = [f"{'x' * 150}{n:02}" for n in range(60)]
    table.branch("fix").write(pa.table({"p": names, "v": pa.array(range(60), pa.int64())}))
    done = table.merge_branch("fix", dry_run=True)
    assert done.change is not None
    assert (len(done.change.partitions), done.change.more_partitions) == (5, 55)
    lines = str(done).splitlines()
    assert lines[-1] == "  and 55 more partitions" and len(lines) < 12 and max(map(len, lines)) < 120
    assert done.change.rows_text.endswith("; 55 more")


def test_unreadable_metadata_stops_no_publication(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise FileMissingError("gone")

    monkeypatch.setattr(main_change, "changed_files", gone)
    done = table.merge_branch("fix", if_main_moved="replace")
    assert done.change == MainChange(2, 2) and "rows that main loses and gains are unknown" in str(done)


def test_options_and_columns_that_main_loses_are_named(table: Table) -> None:
    """As after `prepare`, whose options a branch from before does not have."""
    table.branch("fix").alter(set_options={"read.batch-size": "77"})
    table.alter(
        add={"note": "STRING"},
        retype={"v": "DECIMAL(30, 2)"},
        set_options={"snapshot.time-retained": "7 d", "c": "3", "a": "1", "b": "2"},
    )
    planned = table.merge_branch("fix", if_main_moved="replace", dry_run=True)
    assert planned.change is not None
    assert planned.change.definition == (
        "option a = 1", "option b = 2", "option c = 3", "option snapshot.time-retained = 7 d", "column note",
        "type DECIMAL(30, 2) of column v",
    )  # fmt: skip
    text = "definition: main {} option a = 1, option b = 2, option c = 3, option snapshot.time-retained = 7 d, 2 more"
    assert text.format("would lose") in str(planned).splitlines()
    done = table.merge_branch("fix", if_main_moved="replace")
    assert text.format("lost") in str(done).splitlines()
    undone = table.undo()
    assert undone.change is not None and undone.change.definition == ("option read.batch-size = 77",)


def test_a_lost_day_is_told_before_days_that_are_written_again(tmp_path: Path) -> None:
    table = a_table("dt STRING, v BIGINT", by="dt", where=tmp_path / "wh")
    table.create_branch("fix")
    for day in ("d1", "d2", "d3", "d4", "d5", "d6"):
        put_day(table, day, 4)
        put_day(table.branch("fix"), day, 4)
    put_day(table, "d7", 1)
    found = table.merge_branch("fix", if_main_moved="replace", dry_run=True).change
    assert found is not None
    assert found.partitions[0] == PartitionRows("dt=d7", 1, 0)


@pytest.mark.parametrize(
    "change", [LOST, MainChange(1, 0), MainChange(0, 1, 0, 7, are_records=True, definition=("a",))]
)
def test_a_record_keeps_it(change: MainChange) -> None:
    assert decode_change(change_json(change)) == change


@pytest.mark.ci
def test_publishing_removing_and_comparing_do_not_import_pandas(table: Table, tmp_path: Path) -> None:
    """Importing it takes longer than to publish a branch of hundreds of commits."""
    code = f"""
import sys
import paimon_spark
table = paimon_spark.load_catalog({str(tmp_path / "wh")!r}).table("db.t")
assert table.merge_branch("fix", if_main_moved="replace").change.rows_lost == 10
assert table.undo().change.rows_lost == 2
table.diff("fix", "main")
table.expire_snapshots(retain_max=1, retain_min=1, older_than=None)
table.remove_orphan_files()
assert "pandas" not in sys.modules, "pandas was imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
