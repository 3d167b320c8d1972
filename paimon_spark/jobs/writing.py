"""Table.write: whatever holds rows → a WriteJob, run here or by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_spark import progress
from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.jobs.batch_write import WriteResult, plan_write
from paimon_spark.jobs.opened_table import Place, refuse_version
from paimon_spark.options.batch_write import BatchWriteOptions, WriteMode, parse_batch_write_options, write_mode
from paimon_spark.options.location import MAIN
from paimon_spark.options.scan import BRANCH, LOCATION_KEYS
from paimon_spark.spark_port import spark_jobs

if TYPE_CHECKING:
    from paimon_spark.jobs.opened_table import OpenedTable

_SPARK: Final = "pyspark.sql."


def write_data(table: OpenedTable, data: Any, mode: str, options: Mapping[str, str]) -> WriteResult:
    """Write `data` to the branch of `table`; as `Table.write`, from option text."""
    chosen = write_mode(mode)
    refuse_version(table)
    given = options_of(table, options)
    if type(data).__module__.startswith(_SPARK) and type(data).__name__ == "DataFrame":
        return spark_jobs().write(table, data, chosen, given)
    schema, batches = arrow_stream(data)
    return write_batches(table, schema, batches, chosen, parse_batch_write_options(given, chosen))


def write_batches(
    table: OpenedTable,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    mode: WriteMode,
    options: BatchWriteOptions,
) -> WriteResult:
    """Write Arrow batches of `schema` in this process. Raises as `Table.write`."""
    job = plan_write(place_of(table, options), options, mode, schema)
    try:
        messages = job.write(progress.counted(batches, "write", "rows", size=lambda batch: batch.num_rows))
    except BaseException:
        job.abort(())
        raise
    return job.commit(messages)


def place_of(table: OpenedTable, options: BatchWriteOptions) -> Place:
    """Where the table lies, with the branch that the write names, else the table's own."""
    handle = table.handle
    return Place(handle.store, handle.layout.root, options.branch or handle.branch, handle.name)


def arrow_stream(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The schema and the batches of whatever holds rows.

    Raises:
        InvalidInputError: `data` holds no rows that Arrow can see.
    """
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    if type(data).__module__.startswith("pandas.") and type(data).__name__ == "DataFrame":
        converted = _converted(lambda: pa.Table.from_pandas(data, preserve_index=False))
        return converted.schema, converted.to_batches()
    if hasattr(data, "__arrow_c_stream__"):
        reader = _converted(lambda: pa.RecordBatchReader.from_stream(data))
        return reader.schema, reader
    raise InvalidInputError(
        f"rows to write come as a Spark DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or a pandas "
        f"DataFrame; found {type(data).__module__}.{type(data).__qualname__}. pyarrow.Table.from_pylist makes one of "
        "dictionaries",
        found=type(data).__qualname__,
    )


def _converted(convert: Callable[[], Any]) -> Any:
    try:
        return convert()
    except pa.ArrowException as e:
        raise InvalidInputError(f"the rows to write cannot be made into Arrow columns: {e}") from e


def options_of(table: OpenedTable, options: Mapping[str, str]) -> dict[str, str]:
    """Those of this write over those that the table was opened with."""
    for key in options:
        if key.lower() in LOCATION_KEYS:
            raise InvalidOptionError(
                f"option {key} says where a table lies; give it to load_table or load_catalog", option=key
            )
    opened = {**table.handle.overrides, **table.read_options.storage_options}
    branch = {} if table.handle.branch == MAIN else {BRANCH.key: table.handle.branch}
    lower = {k.lower() for k in options}
    if BRANCH.key in lower or any(k in lower for k in BRANCH.fallbacks):
        branch = {}
    return {**{k: v for k, v in opened.items() if k.lower() not in lower}, **branch, **options}
