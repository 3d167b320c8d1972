"""Values that take the place of nulls on write: the default of a column, kept as text in the schema.

Source: Java `utils/DefaultValueUtils`, `casting/DefaultValueRow`.
"""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.errors import DataError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.casts.evolution import caster
from paimon_spark.types import STRING, DataField


def default_array(field: DataField, where: str) -> pa.Array | None:
    """The default of a column as an array of one value; None when it has none.

    Raises:
        SchemaMismatchError: the default is no value of the column's type.
    """
    text = field.default_value
    if text is None:
        return None
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text
    try:
        made = caster(STRING, field.type)(array_of([bare], pa.string()))
    except (DataError, UnsupportedFeatureError) as e:
        raise _no_value(field, text, where) from e
    if made.null_count:
        raise _no_value(field, text, where)
    return made


def _no_value(field: DataField, text: str, where: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the default {text!r} of column {field.name} of {where} is no value of {field.type}; change the default",
        column=field.name,
    )
