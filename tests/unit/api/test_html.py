"""Tables, reads, refs and results in notebooks: whole HTML, escaped, without script, from metadata alone."""

from __future__ import annotations

import copy
import pickle
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.display import ShownList, amount, moment, text
from paimon_spark.maintenance.consumers import Consumer, write_consumer
from paimon_spark.storage.local import LocalStore
from tests.unit.versioning.test_diff import add, append_table

EVIL = "<script>alert('x')</script>"
VOID = {"br", "path", "circle", "rect", "meta"}


class Checked(HTMLParser):
    """Refuses what is not closed in order, and all that could run or load."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "img", "style", "a", "foreignobject"), tag
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(value: Any) -> str:
    """The words of the value's HTML, which is whole and harmless."""
    parser = Checked()
    parser.feed(value._repr_html_())
    parser.close()
    assert parser.open == []
    return "\n".join(parser.words)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = append_table(tmp_path, **{"deletion-vectors.enabled": "true"})
    made.alter(comment=EVIL, comments={"v": EVIL}, add={"<b>bold": "INT"})
    add(made, range(3), EVIL)
    made.create_tag("v1")
    made.create_branch("fix", tag="v1")
    add(made, range(3))
    made.delete("id = 1")
    add(made.branch("fix"), range(2))
    write_consumer(made.handle, Consumer("etl", 1))
    made.create_savepoint()
    return made


def test_a_table_shows_what_it_is(table: Table) -> None:
    words = shown(table)
    for word in ("db.a", "append table", "dt", "partition", "BIGINT", EVIL, "deletion-vectors.enabled", "<b>bold"):
        assert word in words
    assert "v1" in shown(table.at("v1")) and "fix" in shown(table.branch("fix"))


def test_reads_and_plans_show_what_is_skipped_and_stay_unpinned(table: Table) -> None:
    scan = table.scan(["id"], where="dt = 'd1' AND id > 1")
    words = shown(scan)
    assert "Plan of db.a" in words and "partition" in words
    add(table, range(100, 101))
    assert 100 in scan.to_arrow()["id"].to_pylist()
    assert shown(scan.plan()) == shown(scan)


def test_lists_are_tables_and_still_lists(table: Table) -> None:
    for found, word in (
        (table.tags(), "v1"),
        (table.snapshots(), "APPEND"),
        (table.branches(), "fix"),
        (table.savepoints(), "snapshot"),
        (table.consumers(), "etl"),
        (table.doctor(), "Doctor"),
    ):
        assert isinstance(found, ShownList) and found == list(found) and word in shown(found)
        again = pickle.loads(pickle.dumps(found))
        assert again == found == copy.copy(found) and shown(again) == shown(found)
        assert repr(found) == repr(list(found))
    assert "none" in shown(ShownList([], "Nothing"))
    for value in (*table.tags(), *table.snapshots(), *table.branches(), *table.savepoints(), *table.consumers()):
        shown(value)


def test_results_show_what_they_did(table: Table) -> None:
    assert "MergeResult" in shown(table.merge_branch("fix", dry_run=True, if_main_moved="replace"))
    for result in (
        table.diff("fix"),
        table.diff("main"),
        table.status(doctor=True),
        table.history(),
        table.history(limit=1),
        table.compact(full=True),
        table.expire_snapshots(retain_max=1, retain_min=1),
        table.delete_branch("fix", dry_run=True),
        table.remove_orphan_files(dry_run=True),
        table.write(pa.table({"id": [1], "dt": ["d"]})),
    ):
        shown(result)
    assert "the same" in shown(table.diff("main"))
    add(table, range(3), EVIL)
    assert EVIL in shown(table.diff("v1"))


def test_a_history_is_a_table_of_commits_with_their_parents(table: Table) -> None:
    html = table.history()._repr_html_()
    commits = table.history().commits
    assert html.count("<tr>") == 1 + len(commits)
    assert all(c.key in html and (c.parent or "") in html for c in commits)
    assert "tag v1" in html and "consumer etl" in html and "guard" not in html


def test_a_system_table_and_a_catalog_show_themselves(table: Table, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(warehouse=str(tmp_path / "wh"))
    assert "db" in shown(catalog)
    files = catalog.table("db.a$files")
    assert "system table" in shown(files) and "file_path" in shown(files) and "file_path" in shown(files.scan())
    secret = paimon_spark.Catalog(str(tmp_path / "wh"), {"s3.secret-key": "hidden-word"})
    assert "hidden-word" not in secret._repr_html_()


def test_what_cannot_be_read_is_said(table: Table) -> None:
    scan, tagged = table.scan(), table.at("v1")
    shutil.rmtree(table.handle.layout.root)
    assert "cannot be shown" in shown(table) and "cannot be shown" in shown(scan)
    assert "cannot be shown" in shown(tagged)


def test_nothing_that_is_shown_reads_a_data_file(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    names = ("read", "read_many", "read_range", "open_range", "open")
    for name in names:
        real = getattr(LocalStore, name, None)
        if real is None:
            continue

        def noted(store: Any, path: Any, *rest: Any, _real: Any = real) -> Any:
            read.extend([path] if isinstance(path, str) else path)
            return _real(store, path, *rest)

        monkeypatch.setattr(LocalStore, name, noted)
    values: list[Any] = [table, table.at("v1"), table.scan(), table.tags(), table.branches(), table.snapshots()]
    values += [table.diff("v1"), table.diff("fix"), table.status(), table.history()]
    for value in values:
        shown(value)
    assert read and not [p for p in read if "bucket-" in p]


def test_sizes_times_and_hidden_characters() -> None:
    assert [amount(n) for n in (0, 1023, 1024, 1536 * 1024)] == ["0 B", "1023 B", "1.0 KiB", "1.5 MiB"]
    assert moment(0) == "1970-01-01 00:00:00 UTC" and moment(2**62) == f"{2**62} ms" and moment(None) is None
    assert text("a\u202eb\x00<") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}&lt;"
