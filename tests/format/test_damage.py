"""Damage any file of a table in any way: a read gives the right rows or an error that names the file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.errors import PaimonError
from tests.harness.golden import FIXTURES, golden_path, golden_reads
from tests.harness.rows import rows_of
from tests.harness.search import is_nightly

TABLES = (
    "append_deletion_vectors", "append_schema_evolution", "pk_deletion_vectors", "pk_lsm_levels", "pk_orc",
    "py_row_tracking", "append_all_types_avro",
)  # fmt: skip


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_short(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def without_its_last_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(max(1, path.stat().st_size)))


def text(path: Path) -> None:
    path.write_text('{"what": "is this?"}')


DAMAGES: tuple[Callable[[Path], None], ...] = (missing, empty, cut_short, without_its_last_byte, garbage, text)
READS = {(r.table, r.label): r for r in golden_reads()}


def files_of(table: str) -> list[str]:
    home = golden_path(table)
    return sorted(p.relative_to(home).as_posix() for p in home.rglob("*") if p.is_file())


def head_of(table: str) -> str:
    latest = (golden_path(table) / "snapshot" / "LATEST").read_text()
    return f"snapshot/snapshot-{latest}"


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_file_is_named_and_never_misread(table: str, damage: Callable[[Path], None], tmp_path: Path) -> None:
    read = READS[table, "latest"]
    silent = []
    step = 1 if is_nightly() else 3
    every = files_of(table)
    always = (head_of(table), max(f for f in every if f.startswith("schema/")))
    tried = sorted({*every[DAMAGES.index(damage) % step :: step], *always})
    for file in tried:
        if damage is missing and file == head_of(table):
            continue  # indistinguishable from a table rolled back to the snapshot before
        home = tmp_path / "t"
        shutil.copytree(golden_path(table), home)
        damage(home / file)
        error = None
        try:
            rows = rows_of(paimon_spark.load_table(str(home)).scan().to_arrow(), read.types)
        except PaimonError as e:
            error = e
        if error is None:
            silent.append(file)
            read.check(rows)
        else:
            assert Path(file).name in str(error), f"{file} {damage.__name__}: {type(error).__name__}: {error}"
        shutil.rmtree(home)
    needed = [f for f in tried if Path(f).name not in ("LATEST", "EARLIEST")]
    assert len(silent) < len(needed), "no damage was noticed at all"


def test_a_schema_id_that_no_file_has_is_named(tmp_path: Path) -> None:
    home = tmp_path / "t"
    shutil.copytree(golden_path("append_schema_evolution"), home)
    (home / "schema" / "schema-1").unlink()
    with pytest.raises(PaimonError, match="schema-1"):
        paimon_spark.load_table(str(home)).scan().to_arrow()


def test_fixtures_are_whole() -> None:
    assert all((FIXTURES / p).is_dir() for p in ("java-0.9", "pypaimon-2.1"))
