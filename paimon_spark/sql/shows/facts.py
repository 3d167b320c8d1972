"""What is shown of a table: its properties and its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.file_stats import decode_partitions
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.known import shown_options
from paimon_spark.sql.columns import column_name
from paimon_spark.sql.text import quoted
from paimon_spark.system_tables.java_text import sql_text
from paimon_spark.types import DataType, TimestampType

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.sql.shows.statements import PartitionSpec

PRIMARY_KEY: Final = "primary-key"
PATH: Final = "path"
OWNER: Final = "owner"
_RESERVED: Final = frozenset(("comment", "collation", "location", "provider", OWNER, "external", "is_managed_location"))
"""What Spark's catalogs keep among the properties of a table, and show as lines of their own."""
_ESCAPED: Final = str.maketrans(
    {c: f"%{ord(c):02X}" for c in [*map(chr, range(1, 0x20)), "\x7f", *"\"#%'*/:=?\\{}[]^"]}
)
"""What Spark's `ExternalCatalogUtils.escapePathName` escapes."""


class Partition(NamedTuple):
    """A partition that has files.

    Attributes:
        values: one for each partition column, as Spark casts them to text; None for null.
        rows: physical rows of its files.
        files: how many.
        size: their bytes.
        created_ms: when the youngest was made, epoch milliseconds; None where no file says.
    """

    values: tuple[str | None, ...]
    rows: int
    files: int
    size: int
    created_ms: int | None

    def path(self, keys: Sequence[str]) -> str:
        """`a=1/b=x`, as SHOW PARTITIONS prints it: null is written null."""
        pairs = zip(keys, self.values, strict=True)
        return "/".join(f"{k.translate(_ESCAPED)}={('null' if v is None else v).translate(_ESCAPED)}" for k, v in pairs)


def properties(table: Table, *, with_path: bool = True) -> dict[str, str]:
    """What SHOW TBLPROPERTIES shows, by key in order: stored options, the primary key, and where the table lies.

    Source: Java's `PaimonSparkTableBase.properties`. Values that may be secret are hidden, as Spark does it.
    """
    if table.is_system:
        return {}
    schema = table.schema
    found = {key: value for key, value in schema.options.items() if key not in _RESERVED}
    if schema.primary_keys:
        found[PRIMARY_KEY] = ",".join(schema.primary_keys)
    if with_path:
        found[PATH] = table.location
    return shown_options(dict(sorted(found.items())))


def partitions(table: Table, spec: PartitionSpec = (), *, whole: bool = False) -> list[Partition]:
    """The partitions that have files, sorted by path.

    Args:
        table: a branch of a table, or a version.
        spec: values of partition columns, of which others are any.
        whole: whether every partition column must have a value.

    Raises:
        InvalidInputError: the table has no partitions, or a column is given twice, or not all are.
        ColumnNotFoundError: a column of `spec` is no partition column.
        PredicateSyntaxError: a value is none of its column's type.
        UnsupportedFeatureError: it is a system table.
    """
    if table.is_system:
        raise UnsupportedFeatureError(
            f"{table.name} is a system table, which has no partitions; show those of {table.handle.name}",
            feature="SHOW PARTITIONS of a system table",
        )
    keys = table.schema.partition_keys
    if not keys:
        raise InvalidInputError(
            f"{table.handle.describe()} is not partitioned, so it has no partitions to show", table=table.name
        )
    scan = table.scan(where=_condition(table, spec, whole=whole))
    sums: dict[bytes, list[int]] = {}
    for split in scan.plan().splits:
        total = sums.setdefault(split.partition, [0, 0, 0, -1])
        for file in split.files:
            total[0] += file.row_count
            total[1] += 1
            total[2] += file.file_size
            total[3] = max(total[3], -1 if file.creation_time_ms is None else file.creation_time_ms)
    row_type = table.schema.partition_type
    rows = decode_partitions(row_type, pa.array(list(sums), pa.binary()))
    zone = table.read_options.time_zone
    texts = [_text(c, f.type, zone).to_pylist() for c, f in zip(rows.columns, row_type, strict=True)]
    found = [
        Partition(values, total[0], total[1], total[2], None if total[3] < 0 else total[3])
        for values, total in zip(zip(*texts, strict=True), sums.values(), strict=True)
    ]
    return sorted(found, key=lambda p: p.path(keys))


def _condition(table: Table, spec: PartitionSpec, *, whole: bool) -> str | None:
    """A condition for `Table.scan` that is true in the partitions named."""
    keys = table.schema.partition_keys
    named = [column_name(table, name, keys, "partition column") for name, _ in spec]
    if len(set(named)) < len(named) or (whole and len(named) < len(keys)):
        raise InvalidInputError(
            f"a partition of {table.handle.describe()} is named by {'' if whole else 'some of '}{', '.join(keys)}, "
            f"each once; given are {', '.join(named)}",
            table=table.name,
        )
    values = (value for _, value in spec)
    terms = (
        f"{quoted(n)} IS NULL" if v.upper() == "NULL" else f"{quoted(n)} = ({v})"
        for n, v in zip(named, values, strict=True)
    )
    return " AND ".join(terms) or None


def _text(values: pa.Array, t: DataType, zone: str | None) -> pa.Array:
    """Values as Spark casts them to text, instants as the session's clock shows them."""
    if isinstance(t, TimestampType) and t.local_zone:
        values = pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, zone or "UTC")))
        t = TimestampType(precision=t.precision)
    texts = sql_text(values, t)
    if isinstance(t, TimestampType):  # Spark writes no zeros at the end of fractions
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "") if t.precision else texts
    return texts
