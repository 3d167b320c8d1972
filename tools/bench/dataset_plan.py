"""Tables of 50,000 and a million files in 100 partitions, metadata only. Run by pypaimon's python with `OUT SCALE`.

One manifest a partition, as a writer that commits partition by partition leaves them, in pypaimon's own
manifest layout, zstd. Planning opens no data file, so there are none.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import fastavro
from pypaimon.manifest.schema.manifest_entry import MANIFEST_ENTRY_SCHEMA
from pypaimon.manifest.schema.manifest_file_meta import MANIFEST_FILE_META_SCHEMA

PARTITIONS = 100
FILES_PER_PARTITION = {"plan": 500, "plan-million": 10_000}
NO_KEYS = struct.pack(">i", 0) + bytes(8)
NO_STATS = {"_MIN_VALUES": NO_KEYS, "_MAX_VALUES": NO_KEYS, "_NULL_COUNTS": []}
COLUMNS = [("id", "BIGINT"), ("n", "INT"), ("x", "DOUBLE"), ("name", "STRING"), ("dt", "STRING")]


def text_slot(text: bytes, offset: int) -> tuple[bytes, bytes]:
    """BinaryRow slot and variable part of a text."""
    if len(text) <= 7:
        return text.ljust(7, b"\0") + bytes([0x80 | len(text)]), b""
    return struct.pack("<Q", (offset << 32) | len(text)), text.ljust((len(text) + 7) // 8 * 8, b"\0")


def partition_row(day: int) -> bytes:
    slot, variable = text_slot(b"2024-%03d" % day, 16)
    return struct.pack(">i", 1) + bytes(8) + slot + variable


def value_row(i: int, day: int) -> bytes:
    fixed = struct.pack("<qiid", i * 1000, i % 97, 0, i / 7)
    name, name_part = text_slot(b"name-%011d" % i, 48)
    dt, dt_part = text_slot(b"2024-%03d" % day, 48 + len(name_part))
    return struct.pack(">i", 5) + bytes(8) + fixed + name + dt + name_part + dt_part


def entry(i: int, day: int, now_ms: int) -> dict[str, Any]:
    stats = {
        "_MIN_VALUES": value_row(i, day),
        "_MAX_VALUES": value_row(i + 1, day),
        "_NULL_COUNTS": [0, 3, 0, 0, 0],
    }
    return {
        "_VERSION": 2, "_KIND": 0, "_PARTITION": partition_row(day), "_BUCKET": 0, "_TOTAL_BUCKETS": -1,
        "_FILE": {
            "_FILE_NAME": f"data-{uuid.uuid4()}-0.parquet", "_FILE_SIZE": 30_000_000 + i, "_ROW_COUNT": 1000,
            "_MIN_KEY": NO_KEYS, "_MAX_KEY": NO_KEYS, "_KEY_STATS": NO_STATS, "_VALUE_STATS": stats,
            "_MIN_SEQUENCE_NUMBER": 0, "_MAX_SEQUENCE_NUMBER": 999, "_SCHEMA_ID": 0, "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": now_ms, "_DELETE_ROW_COUNT": 0, "_EMBEDDED_FILE_INDEX": None, "_FILE_SOURCE": 0,
            "_VALUE_STATS_COLS": None, "_EXTERNAL_PATH": None, "_FIRST_ROW_ID": None, "_WRITE_COLS": None,
        },
    }  # fmt: skip


def write(path: Path, schema: dict[str, Any], records: list[dict[str, Any]]) -> int:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="zstandard", codec_compression_level=1)
    path.write_bytes(out.getvalue())
    return len(out.getvalue())


def make(root: Path, per_partition: int) -> None:
    """Write the metadata of a table, once."""
    now_ms = int(time.time() * 1000)
    if (root / ".done").exists():
        return
    for folder in ("schema", "snapshot", "manifest"):
        (root / folder).mkdir(parents=True)
    metas = []
    for day in range(PARTITIONS):
        entries = [entry(day * per_partition + k, day, now_ms) for k in range(per_partition)]
        name = f"manifest-{uuid.uuid4()}-0"
        size = write(root / "manifest" / name, MANIFEST_ENTRY_SCHEMA, entries)
        stats = {"_MIN_VALUES": partition_row(day), "_MAX_VALUES": partition_row(day), "_NULL_COUNTS": [0]}
        metas.append(
            {
                "_VERSION": 2, "_FILE_NAME": name, "_FILE_SIZE": size, "_NUM_ADDED_FILES": per_partition,
                "_NUM_DELETED_FILES": 0, "_PARTITION_STATS": stats, "_SCHEMA_ID": 0, "_MIN_BUCKET": 0,
                "_MAX_BUCKET": 0, "_MIN_LEVEL": 0, "_MAX_LEVEL": 0, "_MIN_ROW_ID": None, "_MAX_ROW_ID": None,
                "_TOTAL_BUCKETS": -1, "_EXTRA_FILES": None,
            }
        )  # fmt: skip
    write(root / "manifest" / "manifest-list-base", MANIFEST_FILE_META_SCHEMA, metas)
    write(root / "manifest" / "manifest-list-delta", MANIFEST_FILE_META_SCHEMA, [])
    rows = PARTITIONS * per_partition * 1000
    snapshot = {
        "version": 3, "id": 1, "schemaId": 0, "baseManifestList": "manifest-list-base",
        "deltaManifestList": "manifest-list-delta", "commitUser": "bench", "commitIdentifier": 2**63 - 1,
        "commitKind": "APPEND", "timeMillis": now_ms, "totalRecordCount": rows, "deltaRecordCount": 0,
    }  # fmt: skip
    fields = [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(COLUMNS)]
    schema = {
        "version": 3, "id": 0, "fields": fields, "highestFieldId": 4, "partitionKeys": ["dt"],
        "primaryKeys": [],
        "options": {"bucket": "-1"}, "timeMillis": now_ms,
    }  # fmt: skip
    (root / "schema" / "schema-0").write_text(json.dumps(schema))
    (root / "snapshot" / "snapshot-1").write_text(json.dumps(snapshot))
    (root / "snapshot" / "LATEST").write_text("1")
    (root / ".done").touch()


def main() -> None:
    out, scale = Path(sys.argv[1]), float(sys.argv[2])
    for name, count in FILES_PER_PARTITION.items():
        make(out / name, max(1, int(count * scale)))


if __name__ == "__main__":
    main()
