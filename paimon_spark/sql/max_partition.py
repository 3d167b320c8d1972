"""`sys.max_pt('t')`: the greatest value of a table's first partition column, and the scalar functions that are refused.

Source: Java Spark connector, `ReplacePaimonFunctions` and `PaimonFunctions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.metadata.partition_path import value_text
from paimon_spark.sql.call_context import Place
from paimon_spark.sql.literals import arguments_of, literal

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.sql.session import Session

MAX_PT: Final = "max_pt"
_BLOBS: Final = (
    "path_to_descriptor", "descriptor_to_string", "blob_view", "descriptor_to_presigned_url",
    "try_descriptor_to_presigned_url",
)  # fmt: skip
_BUCKETS: Final = ("bucket", "mod_bucket", "hive_bucket")


def scalar_of_call(session: Session, name: str, text: str) -> str:
    """The value of a call `sys.<name>(<text>)` in a query, which takes its place as a text literal.

    Raises:
        UnsupportedFeatureError: a function of Paimon's that is not available here.
        InvalidInputError: there is no such function, or not one text is given.
        Others as `max_pt`.
    """
    lowered = name.lower()
    if lowered in _BLOBS:
        raise UnsupportedFeatureError(
            f"sys.{lowered} works on descriptors of blobs, which are not available here; read the file's path with "
            "__paimon_file_path, or use Java Paimon",
            feature=lowered,
        )
    if lowered in _BUCKETS:
        raise UnsupportedFeatureError(
            f"sys.{lowered} is not available here; the metadata column __paimon_bucket says in which bucket a row is",
            feature=lowered,
        )
    if lowered != MAX_PT:
        raise InvalidInputError(f"there is no function sys.{name}; Paimon's is sys.{MAX_PT}", function=name)
    found = [literal(a) for a in arguments_of(text)]
    if len(found) != 1 or not isinstance(found[0], str):
        raise InvalidInputError(f"sys.{MAX_PT} takes the name of a table as one text: sys.{MAX_PT}('db.t')")
    return max_pt(session, found[0])


def max_pt(where: Session | Catalog | Place, table: str) -> str:
    """The greatest value, as text, of the first partition column among partitions that have files; null is none.

    Args:
        where: whose tables are meant.
        table: its name, as text.

    Raises:
        InvalidInputError: the table has no partition columns, or no partition with files.
        NotFoundError: there is no such table.
    """
    place = Place.of(where)
    opened = place.table(table, f"sys.{MAX_PT}")
    columns = opened.handle.schema.partition_type.fields
    if not columns:
        raise InvalidInputError(f"sys.{MAX_PT}: {opened.handle.describe()} has no partition columns", table=opened.name)
    plan = opened.scan(columns=[columns[0].name]).plan()
    types = [c.type for c in columns]
    values = {binary_row.decode(p, types, raw_timestamps=True)[0] for p in {s.partition for s in plan.splits}}
    values.discard(None)
    if not values:
        raise InvalidInputError(
            f"sys.{MAX_PT}: {opened.handle.describe()} has no partitions that hold data", table=opened.name
        )
    largest = max(values, key=lambda v: (v != v, v))  # NaN is larger than any other
    return value_text(columns[0].type, largest, legacy=False)
