"""Tables that Java writes with files outside their directories are read, expire and are dropped below allowed roots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import UnsupportedFeatureError
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

FIELDS = [["id", "INT NOT NULL"], ["v", "STRING"]]
ALLOWED = "catalog.allowed-external-paths"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"bucket": "-1"}, id="append"),
        pytest.param({"bucket": "2", "changelog-producer": "input"}, id="changelog"),
        pytest.param({"bucket": "2", "deletion-vectors.enabled": "true"}, id="vectors"),
    ],
)
def test_javas_external_files_are_read_and_go_below_allowed_roots(
    options: dict[str, str], java: JavaPaimon, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    path = str(tmp_path / "wh" / "db.db" / "t")
    key = [] if options["bucket"] == "-1" else ["id"]
    listed = {"data-file.external-paths": f"file://{outside}", "data-file.external-paths.strategy": "round-robin"}
    java.call("createTable", path=path, fields=FIELDS, partition=[], pk=key, tableOptions={**options, **listed})
    for start in (0, 10, 20):
        java.call("write", path=path, rows=[[i % 25, f"v{i}"] for i in range(start, start + 10)])
    bystander = outside / "bystander.parquet"
    bystander.write_bytes(b"of another table")
    data = {p for p in files(outside) if p != bystander}
    assert data and not list(Path(path).glob("bucket-*/data-*"))

    def ours(**catalog: str) -> list[tuple[Any, ...]]:
        rows = paimon_spark.load_catalog(str(tmp_path / "wh"), **catalog).table("db.t").scan().to_arrow()
        return sorted(tuple(r.values()) for r in rows.to_pylist())

    def javas() -> list[tuple[Any, ...]]:
        return sorted(tuple(r.values()) for r in java.call("read", path=path)["rows"])

    assert ours() == javas() and len(ours()) == (30 if not key else 25)
    with pytest.raises(UnsupportedFeatureError, match=ALLOWED):
        ours(**{ALLOWED: str(tmp_path / "elsewhere")})

    java.call("write", path=path, rows=[[100, "new"]])
    java.call("compact", path=path, full=True)
    before = ours()
    assert before == javas()
    kept = {p for p in files(outside) if p != bystander}
    allowing = paimon_spark.load_catalog(str(tmp_path / "wh"), **{ALLOWED: str(outside)})
    plain = paimon_spark.load_catalog(str(tmp_path / "wh"))
    if key:  # whose former files the compaction replaced
        allowing.table("db.t").expire_snapshots(retain_max=1)
        now = {p for p in files(outside) if p != bystander}
        assert now < kept and ours() == before == javas()
    assert bystander.read_bytes() == b"of another table"

    assert plain.table("db.t").doctor() == []
    allowing.drop_table("db.t")
    assert files(outside) == {bystander} and not Path(path).exists()


def files(folder: Path) -> set[Path]:
    """All files in a folder."""
    return {p for p in folder.rglob("*") if p.is_file()}
