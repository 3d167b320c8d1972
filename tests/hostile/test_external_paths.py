"""External paths: metadata reaches no file outside its table that the table does not list and the user not allow."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.metadata.external_files import ExternalFiles, StorePath, data_files_of, find_place, open_for_deletion
from tests.harness.external_table import ALLOWED, OPTION, ExternalTable, contents

REFUSED = "lies outside the table and is not followed"


@pytest.fixture(params=["local", "memory"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the warehouse is, and the victim beside it."""
    return str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}"


@pytest.fixture
def victim(base: str) -> str:
    """A table of somebody else in the same warehouse."""
    catalog = paimon_spark.load_catalog(f"{base}/wh")
    catalog.create_database("other")
    catalog.create_table("other.t", "k INT").write(pa.table({"k": pa.array([7, 8], pa.int32())}))
    return f"{base}/wh/other.db/t"


def place(url: str) -> StorePath:
    found = find_place(url)
    assert found is not None, url
    return found


def rules(own: str, listed: str, allowed: str | None = None) -> ExternalFiles:
    split = [place(root) for root in listed.split(",")]
    roots = None if allowed is None else tuple(place(root) for root in allowed.split(",") if root)
    return ExternalFiles(place(own), tuple(split), roots, OPTION)


def replaced(table: ExternalTable) -> list[str]:
    """Give the table two snapshots, the first with files that the second deleted. Returns their names."""
    table.write(1, 2)
    old = table.data_files()
    table.table().write(pa.table({"k": pa.array([3], pa.int32())}), mode="overwrite")
    return old


# Reads.


def test_files_below_a_listed_root_of_the_same_store_are_read(base: str) -> None:
    table = ExternalTable(f"{base}/wh").write(1, 2)
    table.move_files(f"{base}/ext/bucket-0")
    table.set_option(OPTION, f"{base}/ext")
    assert table.keys() == [1, 2]
    assert table.keys(allowed=f"s3://elsewhere,{base}/ext") == [1, 2]


def test_a_file_below_no_listed_root_is_refused_by_name(base: str, victim: str) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    (name, *_) = (n for n in contents(f"{victim}/bucket-0") if n.endswith(".parquet"))
    url = f"{victim}/bucket-0{name}"
    table.name_files(lambda _: url)
    with pytest.raises(UnsupportedFeatureError, match=f"{REFUSED}: it is below no root .*{OPTION}") as caught:
        table.keys()
    assert caught.value.context["path"] == url
    table.set_option(OPTION, f"{base}/wh/other.db/tt")
    with pytest.raises(UnsupportedFeatureError, match=REFUSED):
        table.keys()


def test_two_catalogs_of_one_process_allow_what_each_allows(base: str) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    table.move_files(f"{base}/ext/bucket-0")
    table.set_option(OPTION, f"{base}/ext")
    assert table.keys(allowed=f"{base}/ext") == [1]
    with pytest.raises(UnsupportedFeatureError, match=f"{REFUSED}: .*{ALLOWED}"):
        table.keys(allowed="s3://elsewhere")
    with pytest.raises(UnsupportedFeatureError, match=REFUSED):
        table.keys(allowed="")


def test_a_table_cannot_allow_itself_anything(base: str, tmp_path: Path) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    other = "memory://other" if not base.startswith("memory") else "s3://other"
    table.name_files(lambda name: f"{other}/ext/{name}")
    table.set_option(OPTION, f"{other}/ext")
    table.set_option(ALLOWED, f"{other}/ext")
    with pytest.raises(UnsupportedFeatureError, match=f"it is in another store; list its root .*{ALLOWED}"):
        table.keys()


def test_another_store_is_read_where_the_catalog_allows_it(tmp_path: Path) -> None:
    table = ExternalTable(f"{tmp_path}/wh").write(1, 2)
    table.move_files(f"memory://{tmp_path.name}/ext/bucket-0")
    table.set_option(OPTION, f"memory://{tmp_path.name}/ext")
    with pytest.raises(UnsupportedFeatureError, match=ALLOWED):
        table.keys()
    assert table.keys(allowed=f"memory://{tmp_path.name}") == [1, 2]


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "{}", "FILE:{}", "File://{}", "local://{}", "file:////{}"])
def test_files_of_this_machine_are_never_read_for_a_remote_table(tmp_path: Path, form: str) -> None:
    table = ExternalTable(f"memory://{tmp_path.name}/wh").write(1)
    (tmp_path / "ext").mkdir()
    table.move_files(str(tmp_path / "ext"))
    table.name_files(lambda name: form.format(tmp_path / "ext" / name))
    table.set_option(OPTION, form.format(tmp_path / "ext"))
    with pytest.raises(UnsupportedFeatureError, match="it is on this machine, and the table is not"):
        table.keys(allowed=form.format(tmp_path / "ext"))


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs", "ftp", "sftp", "http", "https", "s3", "gs", "abfs", "smb"])
def test_no_connection_is_opened_that_nobody_allowed(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ExternalTable(f"{tmp_path}/wh")
    old = replaced(table)
    table.name_files(lambda name: f"{scheme}://127.0.0.1:9/ext/{name}" if name in old else None)
    table.set_option(OPTION, f"{scheme}://127.0.0.1:9/ext")

    def connect(*args: object, **kwargs: object) -> None:
        pytest.fail(f"a store of {scheme} was opened")

    monkeypatch.setattr("paimon_spark.storage.urls._remote_store", connect)
    with pytest.raises(UnsupportedFeatureError, match=REFUSED):
        table.keys(versionAsOf="1")
    opened = table.table(**{OPTION: f"{scheme}://127.0.0.1:9/ext"})
    assert opened.expire_snapshots(retain_max=1, retain_min=1).outside
    opened.remove_orphan_files(dry_run=True)
    assert opened.doctor() is not None


TRICKS = [
    "{ext}/../victim/f",
    "{ext}/./../victim/f",
    "{ext}/%2e%2e/victim/f",
    "{ext}/%2E%2e%2Fvictim/f",
    "{ext}/%252e%252e/victim/f",
    "{ext}/x%2f..%2f..%2fvictim/f",
    "{ext}/..\\victim/f",
    "{ext}//../victim/f",
    "{ext}2/f",
    "{ext}",
    "{ext}/",
    "{ext}%2Ff",
    "{ext}/a\nb",
    "{ext}/a\0b",
    "victim/f",
    "../victim/f",
    "",
    " ",
    "://",
    "simplecache::{ext}/f",
    "file::{ext}/f",
]


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("ext", ["/data/ext", "s3://bucket/ext", "http://host/ext"])
def test_tricks_lead_nowhere(ext: str, trick: str) -> None:
    url = trick.format(ext=ext)
    found = rules(f"{ext.rpartition('/')[0]}/wh/db.db/t", ext, ext)
    assert found.refusal(url) is not None
    assert found.refusal(url, delete=True) is not None
    assert found.refusal(f"{ext}/p=a%2Fb/bucket-0/f") is None
    assert found.refusal(f"{ext}/f", delete=True) is None


@pytest.mark.parametrize(
    ("root", "url"),
    [
        ("s3a://bucket/ext", "s3://bucket/ext/f"),
        ("s3://bucket/ext/", "s3n://bucket//ext///f"),
        ("S3://bucket/ext", "s3a://bucket/ext/f"),
        ("gs://bucket", "gcs://bucket/f"),
        ("file:/data/ext", "file:///data/ext/f"),
        ("/data/ext", "file:/data/ext/f"),
        ("file:///", "/data/ext/f"),
        ("memory://a/b", "memory:/a/b/f"),
    ],
)
def test_one_place_has_several_forms(root: str, url: str) -> None:
    assert place(url).is_below(place(root))


@pytest.mark.parametrize(
    ("root", "url"),
    [
        ("s3://bucket/ext", "s3://bucket2/ext/f"),
        ("s3://bucket", "s3://bucket2/f"),
        ("s3://bucket/ext", "s3://bucket/Ext/f"),
        ("s3://bucket/ext", "gs://bucket/ext/f"),
        ("hdfs://nn:8020/ext", "hdfs://evil:8020/ext/f"),
        ("http://host/ext", "http://host@evil/ext/f"),
        ("http://host/ext", "https://host/ext/f"),
        ("/data/ext", "s3://data/ext/f"),
    ],
)
def test_other_places_are_other_places(root: str, url: str) -> None:
    assert not place(url).is_below(place(root))


@pytest.mark.parametrize(
    "url", ["file://host/data/f", "a:b", "s3:bucket/f", "s3://..", "s3://b/\ud800", quote("s3://b/f")]
)
def test_text_of_another_form_is_no_place(url: str) -> None:
    assert find_place(url) is None


def test_links_below_an_allowed_root_lead_nowhere(tmp_path: Path, victim_file: Path) -> None:
    table = ExternalTable(f"{tmp_path}/wh")
    old = replaced(table)
    (tmp_path / "ext").mkdir()
    (tmp_path / "ext" / "bucket-0").symlink_to(victim_file.parent)
    table.name_files(lambda name: f"{tmp_path}/ext/bucket-0/{victim_file.name}" if name in old else None)
    table.set_option(OPTION, f"{tmp_path}/ext")
    with pytest.raises(UnsupportedFeatureError, match=REFUSED):
        table.keys(allowed=f"{tmp_path}/ext", versionAsOf="1")
    found = table.table(f"{tmp_path}/ext").expire_snapshots(retain_max=1, retain_min=1)
    assert len(found.outside) == 1
    assert victim_file.read_bytes() == b"precious"


@pytest.fixture
def victim_file(tmp_path: Path) -> Path:
    (tmp_path / "victim").mkdir()
    file = tmp_path / "victim" / "f"
    file.write_bytes(b"precious")
    return file


def test_roots_of_a_catalog_that_are_no_urls_are_refused(base: str) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    table.name_files(lambda name: f"{base}/ext/{name}")
    for root in ("data/ext", "/data/../ext", "file://host/x"):
        with pytest.raises(InvalidOptionError, match=f"option {ALLOWED}"):
            table.keys(allowed=root)


def test_the_rules_and_stores_cross_processes(tmp_path: Path) -> None:
    handle = ExternalTable(f"{tmp_path}/wh").table("s3://bucket/x").handle
    copy = pickle.loads(pickle.dumps(handle))
    assert data_files_of(copy) == data_files_of(handle)
    assert data_files_of(copy).allowed == (place("s3://bucket/x"),)


def test_parts_of_compacted_changelogs_do_not_lead_out_of_a_root(base: str) -> None:
    table = ExternalTable(f"{base}/wh")
    old = replaced(table)
    part = "compacted-changelog-1$7-9-0-9.cc-parquet"
    table.name_files(lambda name: f"{base}/ext/{part}" if name in old else None)
    table.set_option(OPTION, f"{base}/ext")
    with pytest.raises(UnsupportedFeatureError, match=r"/bucket-7/compacted-changelog.*" + REFUSED):
        table.keys(versionAsOf="1")


# Index files.


def test_index_files_elsewhere_are_neither_read_nor_deleted(base: str) -> None:
    table = ExternalTable(f"{base}/wh", options={"deletion-vectors.enabled": "true", "bucket": "-1"}).write(1, 2, 3)
    table.table().delete("k = 2")
    fs, root = fsspec.core.url_to_fs(base)
    fs.makedirs(f"{root}/victim", exist_ok=True)
    for name in fs.ls(f"{root}/wh/db.db/t/index", detail=False):
        fs.pipe_file(f"{root}/victim/{name.rpartition('/')[2]}", fs.cat_file(name))
    table.name_index_files(lambda name: f"{base}/victim/{name}")
    before = contents(f"{base}/victim")
    assert before
    with pytest.raises(UnsupportedFeatureError, match=REFUSED):
        table.keys()
    table.set_option(OPTION, f"{base}/victim")
    assert table.keys() == [1, 3]
    table.set_option(OPTION, "")
    table.table().rollback_to("1")
    assert contents(f"{base}/victim") == before


# Deletions.


def forged(base: str, victim: str, listed: str) -> ExternalTable:
    """A table whose first snapshot names the files of another table."""
    table = ExternalTable(f"{base}/wh")
    old = replaced(table)
    files = [name for name in contents(f"{victim}/bucket-0") if name.endswith(".parquet")]
    assert files
    table.name_files(lambda name: f"{victim}/bucket-0{files[0]}" if name in old else None)
    return table.set_option(OPTION, listed) if listed else table


@pytest.mark.parametrize("listed", ["", "{victim}", "{base}", "/", "memory://", "{base}/wh"])
@pytest.mark.parametrize("allowed", [None, "", "/,memory://", "{base}", "{base}/wh", "s3://bucket"])
def test_expiry_leaves_the_files_of_other_tables(base: str, victim: str, listed: str, allowed: str | None) -> None:
    table = forged(base, victim, listed.format(base=base, victim=victim))
    before = contents(victim)
    given = None if allowed is None else allowed.format(base=base)
    opened = table.table(given)
    planned = opened.expire_snapshots(retain_max=1, retain_min=1, dry_run=True)
    found = opened.expire_snapshots(retain_max=1, retain_min=1)
    assert found.snapshots == ("1",)
    assert found.outside == planned.outside
    assert len(found.outside) == 1
    assert all(f"{base}/wh/other.db" not in path for path in found.paths)
    assert "left 1 file outside the table" in "\n".join(found.text_lines())
    assert contents(victim) == before


def test_an_append_with_stored_retention_leaves_them_too(base: str, victim: str) -> None:
    table = forged(base, victim, "")
    table.set_option("snapshot.num-retained.max", "1").set_option("snapshot.num-retained.min", "1")
    table.set_option("snapshot.time-retained", "1 ms")
    before = contents(victim)
    table.write(5)
    assert [s.id for s in table.table().snapshots()] != [1, 2, 3]
    assert contents(victim) == before


@pytest.mark.parametrize("verb", ["purge", "orphans", "rollback", "compact"])
@pytest.mark.parametrize("listed", ["", "{victim}", "{base}/wh"])
def test_other_verbs_leave_them(base: str, victim: str, verb: str, listed: str) -> None:
    table = forged(base, victim, listed.format(base=base, victim=victim))
    before = contents(victim)
    opened = table.table()
    verbs: dict[str, Callable[[], object]] = {
        "purge": opened.purge,
        "orphans": lambda: opened.remove_orphan_files(_soon()),
        "rollback": lambda: opened.rollback_to("1"),
        "compact": lambda: opened.compact(full=True),
    }
    if listed and verb == "compact":
        with pytest.raises(UnsupportedFeatureError, match=OPTION):
            verbs[verb]()
    else:
        verbs[verb]()
    assert contents(victim) == before


def test_compaction_copies_no_rows_of_others(base: str, victim: str) -> None:
    table = ExternalTable(f"{base}/wh").write(1).write(2).write(3)
    (name, *_) = (n for n in contents(f"{victim}/bucket-0") if n.endswith(".parquet"))
    first = table.data_files()[0]
    table.name_files(lambda own: f"{victim}/bucket-0{name}" if own == first else None)
    before = contents(table.root)
    with pytest.raises(UnsupportedFeatureError, match=REFUSED):
        table.table().compact(full=True)
    assert {path: data for path, data in contents(table.root).items() if path.endswith(".parquet")} == {
        path: data for path, data in before.items() if path.endswith(".parquet")
    }
    table.set_option(OPTION, victim)
    with pytest.raises(UnsupportedFeatureError, match=OPTION):
        table.table(victim).compact(full=True)


@pytest.mark.parametrize("allowed", [None, "{base}", "{victim}"])
def test_orphan_cleaning_leaves_folders_that_an_option_names(base: str, victim: str, allowed: str | None) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    table.set_option(OPTION, victim)
    before = contents(victim)
    given = None if allowed is None else allowed.format(base=base, victim=victim)
    found = table.table(given).remove_orphan_files(_soon())
    assert contents(victim) == before
    assert found.outside == (victim,)
    assert f"left files below {victim}" in "\n".join(found.text_lines())


@pytest.mark.parametrize("allows", [False, True])
def test_orphan_cleaning_takes_external_files_that_only_unused_manifests_name(base: str, allows: bool) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    table.move_files(f"{base}/ext/bucket-0")
    kept = contents(f"{base}/ext")
    table.table().write(pa.table({"k": pa.array([2], pa.int32())}))
    second = [url.rpartition("/")[2] for url in table.move_files(f"{base}/ext/bucket-0")]
    fs, root = fsspec.core.url_to_fs(table.root)
    fs.rm_file(f"{root}/snapshot/snapshot-2")
    fs.pipe_file(f"{root}/snapshot/LATEST", b"1")
    fs.pipe_file(f"{root.removesuffix('wh/db.db/t')}ext/bucket-0/data-of-others-0.parquet", b"rows")
    before = contents(f"{base}/ext")
    assert len(before) == 3
    table.set_option(OPTION, f"{base}/ext")
    found = table.table(f"{base}/ext" if allows else None).remove_orphan_files(_soon())
    assert any(path.endswith(second[0]) for path in found.paths) is allows
    expected = {**kept, "/bucket-0/data-of-others-0.parquet": b"rows"} if allows else before
    assert contents(f"{base}/ext") == expected
    assert table.keys() == [1]


def test_orphan_cleaning_leaves_folders_of_another_store(tmp_path: Path) -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file(f"/{tmp_path.name}/victim/bucket-0/data-1-0.parquet", b"rows")
    table = ExternalTable(f"{tmp_path}/wh").write(1)
    table.set_option(OPTION, f"memory://{tmp_path.name}/victim")
    table.table(f"memory://{tmp_path.name}").remove_orphan_files(_soon())
    assert contents(f"memory://{tmp_path.name}/victim") == {"/bucket-0/data-1-0.parquet": b"rows"}


def _soon() -> int:
    """The latest moment that orphan cleaning takes: now."""
    return int(time.time() * 1000)


def test_no_deletion_leaves_the_table_unchecked(base: str, victim: str) -> None:
    handle = ExternalTable(f"{base}/wh").table().handle
    for path in (f"{victim}/f", f"{handle.layout.root}/../../other.db/t/f", f"{handle.layout.root}2/f", "/f", "f"):
        with pytest.raises(UnsupportedFeatureError, match=REFUSED):
            open_for_deletion(handle, path)
    assert open_for_deletion(handle, f"{handle.layout.root}/bucket-0/f") == (
        handle.store,
        f"{handle.layout.root}/bucket-0/f",
    )


@pytest.mark.parametrize("listed", ["{victim}", "{base}", "/", "memory://", "{base}/wh"])
@pytest.mark.parametrize("allowed", [None, "", "/,memory://", "{base}/wh"])
@pytest.mark.parametrize("cascade", [False, True])
def test_drop_leaves_the_files_of_other_tables(
    base: str, victim: str, listed: str, allowed: str | None, cascade: bool, caplog: pytest.LogCaptureFixture
) -> None:
    table = forged(base, victim, listed.format(base=base, victim=victim))
    before = contents(victim)
    given = {} if allowed is None else {ALLOWED: allowed.format(base=base)}
    catalog = paimon_spark.load_catalog(table.warehouse, **given)
    if cascade:
        catalog.drop_database("db", cascade=True)
    else:
        catalog.drop_table("db.t")
    assert contents(victim) == before
    assert contents(table.root) == {}
    assert "dropped table db.t: left 1 file outside the table" in caplog.text


def test_tables_that_cannot_be_read_are_dropped_without_what_they_name(base: str, victim: str) -> None:
    table = forged(base, victim, victim)
    fs, root = fsspec.core.url_to_fs(table.root)
    for path in fs.ls(f"{root}/manifest", detail=False):
        fs.pipe_file(path, b"garbage")
    before = contents(victim)
    paimon_spark.load_catalog(table.warehouse, **{ALLOWED: victim}).drop_table("db.t")
    assert contents(victim) == before
    assert contents(table.root) == {}


# Tables that really have files outside.


@pytest.mark.parametrize("other_store", [False, True])
def test_drop_deletes_external_files_below_roots_that_are_listed_and_allowed(
    base: str, tmp_path: Path, other_store: bool
) -> None:
    ext = f"{base}/ext" if not other_store else f"memory://{tmp_path.name}-other/ext"
    table = ExternalTable(f"{base}/wh").write(1, 2)
    table.move_files(f"{ext}/bucket-0")
    fs, directory = fsspec.core.url_to_fs(ext)
    fs.pipe_file(f"{directory}/bucket-0/mine", b"kept")
    table.set_option(OPTION, ext)
    paimon_spark.load_catalog(table.warehouse, **{ALLOWED: ext}).drop_table("db.t")
    assert contents(ext) == {"/bucket-0/mine": b"kept"}


@pytest.mark.parametrize("other_store", [False, True])
def test_expiry_deletes_external_files_below_roots_that_are_listed_and_allowed(
    base: str, tmp_path: Path, other_store: bool
) -> None:
    ext = f"{base}/ext" if not other_store else f"memory://{tmp_path.name}-other/ext"
    table = ExternalTable(f"{base}/wh")
    table.write(1, 2)
    old = table.move_files(f"{ext}/bucket-0")
    table.table().write(pa.table({"k": pa.array([3], pa.int32())}), mode="overwrite")
    fs, directory = fsspec.core.url_to_fs(ext)
    fs.pipe_file(f"{directory}/bucket-0/mine", b"kept")
    table.set_option(OPTION, ext)
    found = table.table(ext).expire_snapshots(retain_max=1, retain_min=1)
    assert found.outside == ()
    assert found.data_files == len(old) == 1
    assert contents(ext) == {"/bucket-0/mine": b"kept"}
    assert table.keys(ext) == [3]


def test_doctor_finds_external_files_where_they_are(base: str) -> None:
    table = ExternalTable(f"{base}/wh").write(1)
    table.move_files(f"{base}/ext/bucket-0")
    assert table.table().doctor() == []
    table.set_option(OPTION, "/")  # a walk of the machine would not end
    assert table.table().doctor() == []
    table.set_option(OPTION, f"{base}/ext")
    assert table.table().doctor() == []
    fs, directory = fsspec.core.url_to_fs(f"{base}/ext")
    fs.rm(directory, recursive=True)
    assert len(table.table().doctor()) == 1
