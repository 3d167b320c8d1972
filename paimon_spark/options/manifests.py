"""ManifestOptions: how manifests are written.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from paimon_spark.options.commit import MANIFEST_TARGET_SIZE
from paimon_spark.options.descriptor import Option, enum_of, integer, string


class ManifestFormat(Enum):
    """The file format of manifests, manifest lists and index manifests."""

    AVRO = "avro"
    ORC = "orc"
    PARQUET = "parquet"


COMPRESSION = Option(
    "manifest.compression",
    string,
    "zstd",
    "Codec of manifests, manifest lists and index manifests, of those that their format has.",
)
FORMAT = Option(
    "manifest.format",
    enum_of(ManifestFormat),
    ManifestFormat.AVRO,
    "Format of manifests, manifest lists and index manifests; pypaimon reads only avro.",
)
ZSTD_LEVEL = Option("file.compression.zstd-level", integer, 1, "Level of zstd wherever it is used.")


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """The options of a table that its manifests are written by."""

    format: ManifestFormat
    compression: str
    zstd_level: int
    target_bytes: int


def parse_manifest_options(raw: Mapping[str, str]) -> ManifestOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return ManifestOptions(
        format=FORMAT.get(raw),
        compression=COMPRESSION.get(raw),
        zstd_level=ZSTD_LEVEL.get(raw),
        target_bytes=MANIFEST_TARGET_SIZE.get(raw),
    )
