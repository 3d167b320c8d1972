"""Tables of another type than Paimon's own: a catalog of paths makes none, Java's as little as ours."""

from __future__ import annotations

from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.errors import NotFoundError, UnsupportedFeatureError
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("kind", ["format-table", "object-table"])
def test_a_catalog_of_paths_refuses_other_types_of_tables(kind: str, java: JavaPaimon, tmp_path: Path) -> None:
    given = {"does": "createTable", "database": "db", "table": "t", "type": kind}
    (reply,) = java.run([{"op": "catalog", "path": str(tmp_path), **given}])
    assert f"does not support {kind.replace('-', ' ')}" in reply["error"]
    catalog = paimon_spark.load_catalog(str(tmp_path))
    with pytest.raises(UnsupportedFeatureError, match=rf"type = '{kind}'.*Hive and REST catalogs.*spark\.read"):
        catalog.create_table("db.t", "k INT", options={"type": kind, "file.format": "csv"})
    with pytest.raises(NotFoundError):
        catalog.table("db.t")
