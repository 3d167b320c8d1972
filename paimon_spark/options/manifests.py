"""ManifestOptions: how manifests are written.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_spark.options.commit import MANIFEST_TARGET_SIZE
from paimon_spark.options.descriptor import Option, integer, string

COMPRESSION = Option("manifest.compression", string, "zstd", "Codec of manifests, manifest lists and index manifests.")
ZSTD_LEVEL = Option("file.compression.zstd-level", integer, 1, "Level of zstd wherever it is used.")


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """The options of a table that its manifests are written by."""

    compression: str
    zstd_level: int
    target_bytes: int


def parse_manifest_options(raw: Mapping[str, str]) -> ManifestOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return ManifestOptions(
        compression=COMPRESSION.get(raw),
        zstd_level=ZSTD_LEVEL.get(raw),
        target_bytes=MANIFEST_TARGET_SIZE.get(raw),
    )
