"""Provenance ↔ the properties of a snapshot. What one release wrote, every later one reads (`_VERSION`).

The job and the barrier are properties of their own, for people who look at a snapshot; the ranges are JSON.

Source: own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from paimon_spark.lineage.model import Provenance, SourceRange, TableRef

JOB: Final = "paimon-spark.lineage.job"
BARRIER: Final = "paimon-spark.lineage.barrier"
SOURCES: Final = "paimon-spark.lineage.sources"
_VERSION: Final = 1
_OPTIONAL: Final = ("warehouse", "location", "after", "last", "within")


def encode(provenance: Provenance) -> dict[str, str]:
    """Properties for the snapshot of a commit."""
    raw: dict[str, Any] = {"version": _VERSION, "sources": [_source(s) for s in provenance.sources]}
    if provenance.query_id is not None:
        raw["query"] = provenance.query_id
    if not provenance.knows_sources:
        raw["unknown"] = True
    return {
        JOB: provenance.job,
        BARRIER: str(provenance.barrier),
        SOURCES: json.dumps(raw, ensure_ascii=False, separators=(",", ":")),
    }


def decode(properties: Mapping[str, str] | None) -> Provenance | None:
    """What the properties of a snapshot say of whence it came; None when they say nothing that can be understood.

    A snapshot is never unreadable for what its properties hold: anybody may write them.
    """
    if not properties or JOB not in properties:
        return None
    try:
        raw = json.loads(properties[SOURCES])
        if raw["version"] > _VERSION:
            return None
        return Provenance(
            properties[JOB],
            int(properties[BARRIER]),
            tuple(_found(s) for s in raw["sources"]),
            raw.get("query"),
            not raw.get("unknown", False),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _source(source: SourceRange) -> dict[str, Any]:
    out: dict[str, Any] = {} if source.ref is None else dict(source.ref.told)
    return out | {k: v for k in _OPTIONAL if (v := getattr(source, k)) is not None}


def _found(raw: Mapping[str, Any]) -> SourceRange:
    name = raw.get("table")
    ref = None if name is None else TableRef.parse(name, raw.get("database"))
    return SourceRange(ref, **{k: raw.get(k) for k in _OPTIONAL})
