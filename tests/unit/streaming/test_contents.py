"""Files and changelogs that a stream reads, by kind of table and commit."""

from __future__ import annotations

import pytest

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.options.stream_read import StreamReadOptions
from paimon_spark.streaming.reader import contents_of
from tests.harness.tables import MetadataTable, a_schema, a_snapshot

APPEND, COMPACT, OVERWRITE, ANALYZE = CommitKind
NONE = StreamReadOptions()
OVERWRITES = StreamReadOptions(read_overwrite=True)
APPENDED_OVERWRITES = StreamReadOptions(read_append_overwrite=True)


def content(
    kind: CommitKind,
    *,
    keyed: bool = True,
    changelog: bool = False,
    asked: StreamReadOptions = NONE,
    **options: str,
) -> Content | None:
    given = {k.replace("_", "-"): v for k, v in options.items()}
    schema = a_schema(primary_keys=("k",) if keyed else (), options={"bucket": "1", **given})
    handle = MetadataTable().schema(schema).open()
    changelog_list = "c" if changelog else None
    return contents_of(handle, a_snapshot(3, commit_kind=kind, changelog_manifest_list=changelog_list), asked)


@pytest.mark.parametrize("keyed", [True, False])
def test_without_a_changelog_what_commits_added_is_read(keyed: bool) -> None:
    assert content(APPEND, keyed=keyed) is Content.DELTA
    for kind in (COMPACT, OVERWRITE, ANALYZE):
        assert content(kind, keyed=keyed) is None


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_with_a_producer_the_changelog_of_whatever_commit_is_read(producer: str) -> None:
    for kind in CommitKind:
        assert content(kind, changelog=True, changelog_producer=producer) is Content.CHANGELOG
        assert content(kind, changelog_producer=producer) is None


def test_overwrites_are_read_where_it_is_asked() -> None:
    assert content(OVERWRITE, asked=OVERWRITES) is Content.OVERWRITE
    assert content(OVERWRITE, asked=OVERWRITES, changelog_producer="input", changelog=True) is Content.OVERWRITE
    assert content(OVERWRITE, keyed=False, asked=APPENDED_OVERWRITES) is Content.DELTA
    for kind in (COMPACT, ANALYZE):
        assert content(kind, asked=OVERWRITES) is None
        assert content(kind, keyed=False, asked=APPENDED_OVERWRITES) is None
    assert content(OVERWRITE, asked=APPENDED_OVERWRITES) is None


def test_a_table_without_keys_has_no_changelog_whatever_its_options_say() -> None:
    assert content(APPEND, keyed=False, changelog=True, changelog_producer="input") is Content.DELTA
