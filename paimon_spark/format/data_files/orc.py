"""ORC data files, a stripe at a time.

ORC keeps no nanosecond count but seconds and a fraction; Arrow makes 64-bit nanoseconds of them. Values that
do not fit (Java writes years 1 to 9999) are decoded apart from Arrow, see `orc_timestamps`.

Source: Paimon spec, chapter Data file; Java `format/orc/OrcReaderFactory`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.orc as po

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.conformance import conformed, conformer, naming
from paimon_spark.format.data_files.orc_file import read_tail, stripe_rows
from paimon_spark.format.data_files.orc_timestamps import Restorer, far_columns, with_longs
from paimon_spark.format.data_files.requests import FileRead, Rows, opened
from paimon_spark.types import DataField


def read_orc(read: FileRead) -> Iterator[Rows]:
    """The rows of an ORC file, in file order.

    Raises:
        FormatError, pa.ArrowException, OSError: the file is not what its schema and manifest say.
        DataError: a timestamp does not fit the column's type in Arrow.
    """
    with opened(read) as source:
        file = po.ORCFile(source)
        if file.nrows != read.row_count:
            raise FormatError(f"it holds {file.nrows} rows, its manifest says {read.row_count}")
        rows = stripe_rows(source)
        if rows not in (None, read.row_count):
            raise FormatError(f"its stripes hold {rows} rows, its footer says {read.row_count}")
        names = set(file.schema.names)
        wanted = [f.name for f in read.fields if f.name in names]
        tail = read_tail(source) if any(_has_timestamps(file.schema.field(n).type) for n in wanted) else None
        far = far_columns(tail, wanted) if tail is not None else frozenset()
        if tail is not None and far:
            file = po.ORCFile(with_longs(source, tail, far))
        first = 0
        for number in range(file.nstripes):
            stripe = file.read_stripe(number, columns=wanted) if wanted else file.read_stripe(number)
            restorer = Restorer(source, tail, far, number) if tail is not None and far else None
            arrays = [_array(stripe, f, restorer) for f in read.fields]
            for start in range(0, stripe.num_rows, read.batch_rows):
                n = min(read.batch_rows, stripe.num_rows - start)
                yield Rows(first + start, n, [a.slice(start, n) for a in arrays])
            first += stripe.num_rows
        if first != read.row_count:
            raise FormatError(f"its stripes hold {first} rows, its footer says {read.row_count}")


def _array(stripe: pa.RecordBatch, f: DataField, restorer: Restorer | None) -> pa.Array:
    if f.name not in stripe.schema.names:
        return pa.nulls(stripe.num_rows, arrow_type(f.type))
    array = stripe.column(stripe.schema.names.index(f.name))
    if restorer is not None:
        with naming(f.name):
            array = restorer.column(array, f)
    return conformed(array, conformer(array.type, f.type, f.name, padded_chars=True), f.name)


def _has_timestamps(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return True
    return any(_has_timestamps(kind.field(i).type) for i in range(kind.num_fields))
