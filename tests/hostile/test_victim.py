"""Folders beside a forged table stay as they are, bit for bit, whatever verb is called on the table."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark.api.table import Table
from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files import manifest, manifest_format
from paimon_spark.maintenance import removal
from paimon_spark.metadata import external_files, handle, layout, small_files
from paimon_spark.metadata.journal import change, decision, lock
from paimon_spark.pipelines import records
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.object_store import ObjectStore
from tests.harness.forgeries import (
    DATA_FILES,
    EXTERNAL,
    FORGERIES,
    JOURNALS,
    LINEAGE,
    METADATA,
    RECORDS,
    REFS,
    SAME,
    SCHEMAS,
    UP,
    Forgery,
    digest,
)  # fmt: skip
from tests.harness.s3_server import make_bucket, s3_server
from tests.harness.verbs import PIPELINES, VERBS, Verb
from tests.harness.victims import S3, SECRET, TABLES, VICTIMS, Local, Memory, Place, prepare

EVERY: Final[dict[str, Verb]] = {**VERBS, **PIPELINES}
CORE: Final = (
    "read", "read a branch", "refs", "orphans, tried", "write", "compact", "delete_tag", "delete_branch",
    "fast_forward", "rollback", "recover", "orphans until now", "expire", "expire all there is", "purge",
    "rename_table", "drop_table", "drop_database",
)  # fmt: skip
"""The verbs that delete or move files, and some others."""
FEW: Final = ("read", "read a branch", "write", "recover", "expire", "expire all there is", "drop_table")
OF_PIPELINES: Final = ("pipeline branches", "publish", "delete a pipeline branch", "releases", "undo a release")
OF_LINEAGE: Final = ("lineage", "sync", "forget_job")
CLASSES: Final = {
    "data files": DATA_FILES, "metadata": METADATA, "external": EXTERNAL, "schemas": SCHEMAS, "refs": REFS,
    "journals": JOURNALS, "records": RECORDS, "lineage": LINEAGE,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    monkeypatch.setattr(lock.Owner, "is_alive", lambda _: False)


@pytest.fixture(scope="module")
def memory() -> Iterator[Place]:
    place = Memory(f"memory://victim-{uuid.uuid4().hex}")
    yield prepare(place)
    for path in [path for path in MemoryFileSystem.store if path.startswith(f"{place.root}/")]:
        del MemoryFileSystem.store[path]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return prepare(Local(str(tmp_path_factory.mktemp("victim"))))


@pytest.fixture(scope="module")
def s3(memory: Place) -> Iterator[Place]:
    with s3_server() as options:
        client = make_bucket(options, "victims")
        yield S3("s3://victims", options, client).copy(memory, (TABLES[0], *VICTIMS))


class Outcome:
    """What a verb returned, raised and logged, and which files it read and listed."""

    def __init__(self, place: Place, opened: Table, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Call the verb on the table as it is opened now, or if that fails, as it was opened before."""
        self.looked: set[str] = set()
        self.raw: BaseException | None = None
        logged: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: logged.append(record.msg)  # type: ignore[method-assign]
        logger = logging.getLogger("paimon_spark")
        logger.addHandler(handler)
        try:
            with monkeypatch.context() as patch:
                self._watch(patch)
                catalog = place.catalog()
                try:
                    table = catalog.table(opened.name)
                except PaimonError:
                    table = opened
                self.text = _text(EVERY[verb](catalog, table))
        except PaimonError as e:
            self.text = f"{type(e).__name__}: {e}"
        except Exception as e:  # noqa: BLE001 - such errors are what the test looks for
            self.raw, self.text = e, repr(e)
        finally:
            logger.removeHandler(handler)
        self.told = (self.text.partition(":")[0], tuple(sorted(logged)))

    def _watch(self, patch: pytest.MonkeyPatch) -> None:
        for store in (FsspecStore, LocalStore, ObjectStore):
            for name in ("read", "read_many", "list"):
                patch.setattr(store, name, self._noting(getattr(store, name), "/" if name == "list" else ""))
        list_tree = ObjectStore.list_tree

        def noted(store: ObjectStore, directory: str) -> Any:
            found = list_tree(store, directory)
            self.looked.update(f"{place}/" for place in found)
            return found

        patch.setattr(ObjectStore, "list_tree", noted)

    def _noting(self, act: Callable[..., Any], end: str) -> Callable[..., Any]:
        def noted(store: object, paths: str | list[str]) -> Any:
            self.looked.update([f"{paths}{end}"] if isinstance(paths, str) else paths)
            return act(store, paths)

        return noted


def _text(value: Any) -> str:
    return repr(value.to_pylist()) if isinstance(value, pa.Table) else repr(value)


_clean: dict[tuple[str, str, str], Any] = {}


def _clean_outcome(place: Place, table: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the verb tells of the table as it was made."""
    key = place.url, table, verb
    if key not in _clean:
        found = Outcome(place, place.catalog().table(table), verb, monkeypatch)
        assert found.raw is None, (verb, found.text)
        _clean[key] = found.told
        place.restore()
    return _clean[key]


def check(place: Place, name: str, verbs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forge anew for each verb, on S3 once: victims stay, only our errors are raised, and the forgery is looked at."""
    forgery = FORGERIES[name]
    before = place.victims()
    in_turn = isinstance(place, S3)  # which takes its time
    forged: list[str] = []
    told_of = False
    looked: set[str] = set()
    problems = []
    for verb in verbs:
        clean = None if in_turn else _clean_outcome(place, forgery.table, verb, monkeypatch)
        if not in_turn or not forged:
            opened = place.catalog().table(forgery.table)
            forged = _forge(place, forgery)
        found = Outcome(place, opened, verb, monkeypatch)
        if place.victims() != before:
            problems.append(f"{verb} harmed a victim")
        if found.raw is not None:
            problems.append(f"{verb} raised {found.text}")
        if SECRET in found.text and not forgery.lists:
            problems.append(f"{verb} read a victim: {found.text}")
        told_of = told_of or found.told != clean
        looked |= found.looked & {f"{place.root}/{name}" for path in forged for name in (path, _parent(path))}
        if not in_turn:
            place.restore()
    place.restore()
    assert problems == []
    assert place.victims() == before
    assert looked, f"no verb looked at {name}"
    assert told_of or forgery.unseen, f"no verb took notice of {name}"


def _forge(place: Place, forgery: Forgery) -> list[str]:
    """Forge, and return the paths of the files that are other ones now."""
    before = place.files()
    forgery.forge(place)
    forged = [path for path, data in place.files().items() if before.get(path) != data]
    assert forged
    return forged


def _parent(path: str) -> str:
    return f"{path.rpartition('/')[0]}/"


def _verbs_for(name: str, some: tuple[str, ...]) -> tuple[str, ...]:
    return OF_LINEAGE if name in LINEAGE else OF_PIPELINES if name in RECORDS else some


def _is_of_one_table(name: str) -> bool:
    return FORGERIES[name].table == "db.t" and name not in RECORDS and name not in LINEAGE


def _one_each(count: int) -> list[str]:
    """Some forgeries of each class: always the same ones."""
    return [name for names in CLASSES.values() for name in sorted(names, key=digest)[:count]]


@pytest.mark.ci
def test_every_verb_works_on_the_tables_as_they_are(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = memory.victims()
    refused = set()
    for verb in EVERY:
        found = Outcome(memory, memory.catalog().table("db.t"), verb, monkeypatch)
        assert found.raw is None, verb
        if "Error" in found.told[0]:
            refused.add((verb, found.told[0]))
        memory.restore()
    assert refused == {
        ("delete_branch x", "BranchNotFoundError"),
        ("append_branch", "UnsupportedFeatureError"),
        ("drop_database", "InvalidInputError"),  # as the victim is in its folder
    }
    assert memory.victims() == before


@pytest.mark.parametrize("name", _one_each(2))
def test_verbs_on_some_forged_tables_reach_no_victim(memory: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(memory, name, _verbs_for(name, FEW), monkeypatch)


@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("great hints", ("expire",)),
        ("consumer", ("merge_branch", "replace_main")),
        ("great schema of a snapshot", ("doctor", "create_branch")),
        ("numbers of a file", ("diff of rows",)),
        ("snapshot far away", ("doctor", "write", "expire")),
    ],
)
def test_forged_numbers_and_names_make_errors_of_ours(
    memory: Place, name: str, verbs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(memory, name, verbs, monkeypatch)


@pytest.mark.ci
@pytest.mark.parametrize("name", [name for name in FORGERIES if name not in SAME and digest(name) % 2])
def test_verbs_on_half_of_the_forged_tables_reach_no_victim(
    memory: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(memory, name, _verbs_for(name, FEW), monkeypatch)


@pytest.mark.ci
@pytest.mark.parametrize("name", _one_each(1))
def test_verbs_on_local_disk_reach_no_victim(local: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(local, name, _verbs_for(name, FEW), monkeypatch)


@pytest.mark.s3
@pytest.mark.ci
@pytest.mark.parametrize("name", ["external path of old files, listed", f"step delete-tree of {UP}"])
def test_verbs_on_s3_reach_no_victim(s3: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(s3, name, _verbs_for(name, ("read", "expire", "drop_table")), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGERIES)
def test_no_verb_at_all_reaches_a_victim(memory: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(memory, name, tuple(EVERY if name in RECORDS or name in LINEAGE else VERBS), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGERIES)
def test_no_verb_at_all_on_local_disk_reaches_a_victim(
    local: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(local, name, _verbs_for(name, CORE), monkeypatch)


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n in _one_each(6) if FORGERIES[n].table == "db.t" and n not in RECORDS and n not in LINEAGE]
)
def test_no_verb_at_all_on_s3_reaches_a_victim(s3: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(s3, name, _verbs_for(name, CORE), monkeypatch)


# Without the rules the same forgeries do harm.


def _yes(*_: object, **__: object) -> bool:
    return True


def _none(*_: object, **__: object) -> None:
    return None


Rule = tuple[object, str, object]
_NAMES: Final[tuple[Rule, ...]] = (
    (manifest_format, "is_plain_name", _yes),
    (manifest, "first_unsafe_name", _none),
    (layout, "is_file_name", _yes),
)
_DELETIONS: Final[Rule] = (removal, "open_for_deletion", lambda table, path: (table.store, path))
CONTROLS: Final[dict[str, tuple[str, tuple[Rule, ...]]]] = {
    "data file up": ("expire all there is", (*_NAMES, _DELETIONS)),
    "extra file": ("expire all there is", (*_NAMES, _DELETIONS)),
    "manifest up": ("read", _NAMES),
    "baseManifestList up": ("read", _NAMES),
    "statistics up": ("purge", (*_NAMES, _DELETIONS)),
    "index file up": ("purge", (*_NAMES, _DELETIONS)),
    "external path of old files": ("purge", ((external_files.ExternalFiles, "refusal", _none),)),
    f"path directory {UP}": ("write", _NAMES),
    "main branch": ("read", ((handle, "is_file_name", _yes), (layout, "is_ref_name", _yes))),
    f"step delete-tree of {UP}": ("recover", ((change, "_is_ref_path", _yes),)),
    "journal of a decision elsewhere": (
        "recover",
        ((change, "is_decision_id", _yes), (decision, "is_decision_id", _yes)),
    ),
    "lock of an operation elsewhere": ("recover", ((lock, "_OPERATION", "(?s).*"),)),
    "decision to write ../victim/1.json": ("releases", ((records, "_files_of", lambda record, _: record["files"]),)),
}
"""Forgery → a verb, and the rules that keep it in the table, with what takes their place."""


@pytest.mark.parametrize("name", CONTROLS)
def test_without_its_rule_a_forgery_is_followed(local: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (verb, rules), forgery = CONTROLS[name], FORGERIES[name]
    before = local.victims()
    opened = local.catalog().table(forgery.table)
    forgery.forge(local)
    with monkeypatch.context() as patch:
        for owner, rule, other in rules:
            patch.setattr(owner, rule, other)
        found = Outcome(local, opened, verb, patch)
    reads = [path for path in map(os.path.normpath, found.looked) if path.startswith(_victims(local))]
    assert local.victims() != before or reads, found.text
    local.restore()


def _victims(place: Place) -> tuple[str, ...]:
    return tuple(f"{place.root}/{victim}/" for victim in VICTIMS)
