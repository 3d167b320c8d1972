"""Values that take the place of nulls on write: the default of a column, kept as text in the schema.

Source: Java `utils/DefaultValueUtils`, `casting/DefaultValueRow`. Defaults of columns with children are refused.
"""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.errors import SchemaMismatchError
from paimon_spark.spec.arrow import arrow_type
from paimon_spark.spec.arrow_values import array_of
from paimon_spark.types import BinaryType, CharType, DataField


def default_array(field: DataField, where: str) -> pa.Array | None:
    """The default of a column as an array of one value; None when it has none.

    Raises:
        SchemaMismatchError: the default is no value of the column's type.
    """
    text = field.default_value
    if text is None:
        return None
    kind = arrow_type(field.type)
    if isinstance(field.type, CharType):
        return array_of([text], pa.string())
    if isinstance(field.type, BinaryType):
        return array_of([text.encode()], pa.binary())
    try:
        return array_of([text.strip()], pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise SchemaMismatchError(
            f"the default {text!r} of column {field.name} of {where} is no value of {field.type}; correct the default",
            column=field.name,
        ) from e
