"""Defaults that readers put in place of nulls: the option `fields.<column>.default-value` of tables before 1.3.

Newer versions apply defaults on write only, and keep them in the schema's fields; those mean nothing here.

Source: Java 0.9 to 1.2 `operation/DefaultValueAssigner`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from paimon_spark.engine.tasks.read_request import ReadRequest
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.format.casts.evolution import caster
from paimon_spark.types import STRING


def default_values(request: ReadRequest) -> Mapping[str, pa.Scalar]:
    """For columns with a default, what their nulls read as.

    Raises:
        DataError: a default is not of its column's type.
        UnsupportedFeatureError: text cannot become the column's type at all.
    """
    texts = request.options.read_defaults
    out: dict[str, pa.Scalar] = {}
    for f in request.schema.fields if texts else ():
        text = texts.get(f.name)
        if text is not None:
            array = array_of([text], pa.string())
            out[f.name] = caster(STRING, f.type)(array)[0]
    return out
