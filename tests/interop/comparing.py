"""Our reader beside a peer's: the same rows and columns of the same version, or a refusal that was announced."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import paimon_spark
from paimon_spark.errors import PaimonError, UnsupportedFeatureError
from tests.harness.rows import difference, rows_of

_LTZ = re.compile(r"TIMESTAMP_LTZ\((\d)\)")


def version_options(label: str) -> dict[str, str]:
    """Table options of a version's label: "latest", "snapshot=3", "tag=v1", "branch=b,tag=v1"."""
    options: dict[str, str] = {}
    keys = {"branch": "branch", "snapshot": "scan.snapshot-id", "tag": "scan.tag-name"}
    rest = label
    if rest.startswith("branch="):
        branch, _, rest = rest.removeprefix("branch=").partition(",")
        options["branch"] = branch
    if rest and rest != "latest":
        word, value = rest.split("=", 1)
        options[keys[word]] = value
    return options


def disagreement(
    path: str,
    theirs: dict[str, Any],
    *,
    options: dict[str, str],
    columns: list[str] | None = None,
    where: str | None = None,
    unordered: Collection[str] = (),
    may_refuse: str | None = None,
) -> str | None:
    """What differs between our read and the peer's reply {"rows", "schema"?} or {"error"}; None if nothing does.

    A read that the peer itself fails at must give rows or an error of ours; which of them is open.
    """
    try:
        scan = paimon_spark.load_table(path, **options).scan(columns=columns, where=where)
        table = scan.to_arrow()
        fields = [[f.id, f.name, str(f.type)] for f in scan.row_type.fields]
    except UnsupportedFeatureError as error:
        refused = may_refuse is not None and may_refuse.lower() in str(error).lower()
        return None if refused or "error" in theirs else f"refused: {error}"
    except PaimonError as error:
        return None if "error" in theirs else f"{type(error).__name__}: {error}"
    if "error" in theirs:
        return None
    schema = theirs.get("schema")
    if schema is not None and columns is None and _plain(fields) != _plain(schema):
        return f"fields: want {schema}\n        got {fields}"
    types = {str(name): str(type_) for _, name, type_ in schema or fields}
    return difference(theirs["rows"], rows_of(table, types), unordered)


def _plain(fields: list[list[Any]]) -> list[list[Any]]:
    """The fields with types in one spelling: pypaimon writes TIMESTAMP_LTZ(p), and a colon inside ROW."""
    return [
        [field_id, name, _LTZ.sub(r"TIMESTAMP(\1) WITH LOCAL TIME ZONE", text).replace("`", "").replace(": ", " ")]
        for field_id, name, text in fields
    ]
