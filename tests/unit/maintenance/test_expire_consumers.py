"""Consumers are created, reset, cleared and expired."""

from __future__ import annotations

import pytest

from paimon_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from paimon_spark.maintenance.consumers import (
    Consumer,
    clear_consumers,
    expire_consumers,
    find_consumer,
    first_needed,
    list_consumers,
    reset_consumer,
)
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.storage.urls import open_store
from tests.harness.golden import golden_path
from tests.harness.tables import MetadataTable


def a_table(*snapshots: int) -> TableHandle:
    return MetadataTable().schema().snapshots(snapshots).open()


def test_consumers_that_java_wrote_are_read() -> None:
    store, root = open_store(str(golden_path("consumers")))
    handle = open_table(store, root)
    found = list_consumers(handle)
    assert sorted(c.next_snapshot for c in found) == [2, 4]
    assert first_needed(handle) == 2


def test_a_consumer_is_made_moved_and_removed() -> None:
    handle = a_table(3, 4)
    assert list_consumers(handle) == [] and first_needed(handle) is None
    assert reset_consumer(handle, "etl", 4) == Consumer("etl", 4)
    assert reset_consumer(handle, "etl", 3) == Consumer("etl", 3) == find_consumer(handle, "etl")
    assert handle.store.read(f"{handle.layout.consumer_dir}/consumer-etl") == b'{\n  "nextSnapshot": 3\n}'
    assert reset_consumer(handle, "etl") is None
    assert find_consumer(handle, "etl") is None


def test_consumers_of_a_branch_are_its_own() -> None:
    table = MetadataTable().schema().schema(branch="fix").snapshots([1]).snapshots([1], "fix")
    reset_consumer(table.open("fix"), "etl", 1)
    assert list_consumers(table.open()) == []
    assert list_consumers(table.open("fix")) == [Consumer("etl", 1)]


def test_a_snapshot_that_is_not_alive_cannot_come_next() -> None:
    handle = a_table(3, 4)
    with pytest.raises(
        InvalidInputError, match=r"snapshot 2 of table .*\bdoes not exist: its snapshots alive are 3 to 4"
    ):
        reset_consumer(handle, "etl", 2)
    with pytest.raises(InvalidInputError, match=r"next_snapshot = True of consumer 'etl' is not a snapshot id"):
        reset_consumer(handle, "etl", True)
    with pytest.raises(InvalidInputError, match=r"'a/b' cannot be the name of a consumer"):
        reset_consumer(handle, "a/b", 3)
    assert list_consumers(handle) == []


def test_removing_a_consumer_that_is_not_there_names_the_others() -> None:
    handle = a_table(3)
    reset_consumer(handle, "etl", 3)
    with pytest.raises(NotFoundError, match=r"has no consumer 'elt'; did you mean 'etl'\?; its consumers are etl"):
        reset_consumer(handle, "elt")


def test_a_consumer_that_cannot_be_read_is_an_error_that_says_what_to_do() -> None:
    handle = a_table(3)
    handle.store.write(f"{handle.layout.consumer_dir}/consumer-etl", b"{}")
    with pytest.raises(
        CorruptFileError, match=r"consumer-etl is not a readable consumer .*reset the consumer, or clear"
    ):
        first_needed(handle)
    assert clear_consumers(handle, "etl") == ("etl",)
    assert first_needed(handle) is None


def test_consumers_are_cleared_by_their_whole_names() -> None:
    handle = a_table(3)
    for name in ("a", "ab", "abc", "b"):
        reset_consumer(handle, name, 3)
    assert clear_consumers(handle, "a.*", "a|abc") == ("ab",)
    assert clear_consumers(handle, excluding="b") == ("a", "abc")
    assert clear_consumers(handle) == ("b",)
    with pytest.raises(InvalidInputError, match=r"excluding = '\(' is not a regular expression"):
        clear_consumers(handle, excluding="(")


def test_consumers_without_progress_expire() -> None:
    handle = a_table(3)
    for name in ("old", "new"):
        reset_consumer(handle, name, 3)
    written = [info.modified_ms or 0 for info in handle.store.list(handle.layout.consumer_dir)]
    assert expire_consumers(handle, min(written) - 60_000) == ()
    assert expire_consumers(handle, max(written) + 1) == ("new", "old")
