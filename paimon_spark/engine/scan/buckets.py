"""Skip buckets by equality conditions on all columns of the bucket key.

Source: Java `operation/BucketSelector`, `operation/BucketSelectConverter`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.scan.file_stats import is_padded
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.bucket_hash import buckets as buckets_of
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import BucketFunction
from paimon_spark.predicate.ast import (
    Column,
    Compare,
    In,
    Literal,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    conjuncts,
)
from paimon_spark.types import DataField, TimestampType

_MOST_KEYS: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class BucketFilter:
    """The buckets that can contain rows with given values of the bucket key."""

    function: BucketFunction
    keys: pa.RecordBatch
    fields: tuple[DataField, ...]

    def wanted(
        self,
        buckets: npt.NDArray[np.int32],
        totals: npt.NDArray[np.int32],
        schema_ids: npt.NDArray[np.int64],
        schemas: Mapping[int, TableSchema],
    ) -> Bool:
        """For each entry, False when its bucket cannot hold such a row.

        Entries without a fixed number of buckets stay, and ones written when the bucket key had another type.
        """
        wanted = np.ones(len(buckets), np.bool_)
        for total in np.unique(totals).tolist():
            if total > 0:
                possible = buckets_of(self.keys, total, self.function)
                wanted &= (totals != total) | (buckets < 0) | np.isin(buckets, possible)
        for schema_id in np.unique(schema_ids).tolist():
            if not self._hashes_alike(schemas[schema_id]):
                wanted |= schema_ids == schema_id
        return wanted

    def _hashes_alike(self, schema: TableSchema) -> bool:
        stored = [schema.row_type.find_by_id(field.id) for field in self.fields]
        return all(
            old is not None and old.type.with_nullable(True) == field.type.with_nullable(True)
            for old, field in zip(stored, self.fields, strict=True)
        )


def bucket_filter(handle: TableHandle, predicate: Predicate | None) -> BucketFilter | None:
    """The filter that `predicate` implies; None unless it fixes every column of the bucket key."""
    schema = handle.schema
    if predicate is None or handle.options.bucket == -1 or not schema.bucket_keys:
        return None
    key_type = schema.row_type.project(schema.bucket_keys)
    choices = [values for field in key_type if (values := _choices(predicate, field)) is not None]
    if len(choices) < len(key_type.fields) or math.prod(map(len, choices)) > _MOST_KEYS:
        return None
    rows = list(itertools.product(*choices))
    key_schema = pa.schema([f.with_nullable(True) for f in arrow_schema(key_type)])
    columns = [array_of([row[i] for row in rows], f.type) for i, f in enumerate(key_schema)]
    keys = pa.RecordBatch.from_arrays(columns, schema=key_schema)
    try:
        buckets_of(keys, 1, handle.options.bucket_function)
    except UnsupportedFeatureError:
        return None  # only writers need to know where such a key goes
    return BucketFilter(handle.options.bucket_function, keys, key_type.fields)


def _choices(predicate: Predicate, field: DataField) -> list[Literal] | None:
    """Every value of the column with which `predicate` may be true; None when they cannot be listed."""
    if isinstance(field.type, TimestampType) and field.type.precision > 6:
        return None  # a literal stands for a thousand stored values
    if is_padded(field.type):
        return None  # whether the hashed value was padded is not known
    found: list[Literal] | None = None
    for part in conjuncts(predicate):
        values_of_part = _equal_values(part, field.name)
        if values_of_part is not None:
            known = set(values_of_part)
            found = values_of_part if found is None else [v for v in found if v in known]
    return None if found is None else _stored_forms(found)


def _equal_values(part: Predicate, name: str) -> list[Literal] | None:
    match part:
        case Compare(Op.EQ, Column(path=(column,)), literal) if column == name:
            return [literal]
        case NullSafeEqual(Column(path=(column,)), literal) if column == name and literal is not None:
            return [literal]
        case In(Column(path=(column,)), literals) if column == name:
            return list(literals)
        case Or(children):
            out: list[Literal] = []
            for child in children:
                inner = _equal_values(child, name)
                if inner is None:
                    return None
                out += inner
            return out
    return None


def _stored_forms(literals: list[Literal]) -> list[Literal] | None:
    """The values whose bytes may be stored for equal literals: both zeros; NaN has too many forms."""
    if any(isinstance(v, float) and math.isnan(v) for v in literals):
        return None
    if any(isinstance(v, float) and v == 0 for v in literals):
        return [v for v in literals if v != 0] + [0.0, -0.0]
    return literals
