"""TableSchema: the file `schema-<id>`.

Source: Paimon spec, chapter Schema; Java `schema/TableSchema`, `schema/SchemaSerializer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from paimon_spark.errors import CorruptFileError, FormatError, UnknownFormatVersionError
from paimon_spark.format.json_files import decode_object, encode_value
from paimon_spark.types import DataField, RowType, field_to_json, parse_field

CURRENT_VERSION: Final = 3
_KEYS: Final = (
    "version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's definition.

    Attributes:
        id: equals the number in the file's name; the first is 0.
        row_type: columns in order, with their field ids.
        highest_field_id: largest id ever given out, dropped and nested fields included.
        partition_keys, primary_keys: column names in order; primary keys include partition keys.
        options: table options as text.
        time_ms: epoch milliseconds of the change; 0 when not recorded.
        extra: JSON keys this package does not know, kept for rewriting.
    """

    id: int
    row_type: RowType
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    comment: str | None = None
    time_ms: int = 0
    version: int = CURRENT_VERSION
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[DataField, ...]:
        return self.row_type.fields

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key columns that are not partition columns: the key inside a bucket, in primary key order."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns hashed to choose a fixed bucket: `bucket-key`, else the trimmed primary key; empty if neither."""
        text = self.options.get("bucket-key", "")
        named = tuple(k.strip() for k in text.split(",") if k.strip())
        return named or self.trimmed_primary_keys

    @property
    def key_type(self) -> RowType:
        return self.row_type.project(self.trimmed_primary_keys)

    @property
    def partition_type(self) -> RowType:
        return self.row_type.project(self.partition_keys)


@lru_cache(maxsize=16)  # each commit reads its schema again, to see whether it changed
def decode(data: bytes, path: str) -> TableSchema:
    """The schema in the bytes of a schema file; `path` is for messages.

    Options that older format versions left implicit are filled in as Java does (bucket 1 before version 2,
    file format ORC before version 3).

    Raises:
        CorruptFileError: not the JSON of a schema.
        UnknownFormatVersionError: written by a format version newer than 3.
    """
    return decode_object(
        data,
        lambda raw: _from_json(raw, path),
        lambda why: CorruptFileError(f"schema file {path} cannot be read: {why}", path=path),
    )


def _from_json(raw: dict[str, Any], path: str) -> TableSchema:
    version = _integer(raw.get("version", 1))
    if version > CURRENT_VERSION:
        raise UnknownFormatVersionError(
            f"schema file {path} has format version {version}, this package knows versions up to {CURRENT_VERSION}; "
            "use a newer paimon-spark",
            path=path,
            version=version,
        )
    row_type = RowType(False, tuple(parse_field(f) for f in raw["fields"]))
    options = {str(k): str(v) for k, v in (raw.get("options") or {}).items() if v is not None}
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    schema = TableSchema(
        id=_integer(raw["id"]),
        row_type=row_type,
        highest_field_id=_integer(raw.get("highestFieldId", -1)),
        partition_keys=_texts(raw, "partitionKeys"),
        primary_keys=_texts(raw, "primaryKeys"),
        options=options,
        comment=_text(raw, "comment"),
        time_ms=_integer(raw.get("timeMillis") or 0),
        version=version,
        extra={k: v for k, v in raw.items() if k not in _KEYS},
    )
    _check(schema)
    return schema


def _check(schema: TableSchema) -> None:
    names = schema.row_type.names
    known = frozenset(names)
    if len(known) != len(names):
        raise FormatError("two columns have one name")
    for key in (*schema.partition_keys, *schema.primary_keys):
        if key not in known:
            raise FormatError(f"key column {key!r} is not among the columns {list(names)}")


def _texts(raw: dict[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key) or []
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise FormatError(f"{key} is no list of texts")
    return tuple(value)


def _text(raw: dict[str, Any], key: str) -> str | None:
    value = raw.get(key)
    if not isinstance(value, str | None):
        raise FormatError(f"{key} is no text")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise FormatError(f"expected a 64-bit integer, found {str(value)[:50]!r}")
    return value


def encode(schema: TableSchema) -> bytes:
    """The bytes of the schema file, keys in Java's order."""
    out: dict[str, Any] = {
        "version": CURRENT_VERSION,
        "id": schema.id,
        "fields": [field_to_json(f) for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        out["comment"] = schema.comment
    out["timeMillis"] = schema.time_ms
    out.update(schema.extra)
    return encode_value(out, indent=2)
