"""The data sources `paimon` and `paimon_py`, the name for sessions with Paimon's JAR.

Spark imports this module in every session that looks for data sources: it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from paimon_spark.spark.worker_errors import errors_in_one_line

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from paimon_spark.errors import PaimonError
    from paimon_spark.jobs.read.scan import Scan
    from paimon_spark.spark.stream_read import PaimonStreamReader


@errors_in_one_line
class PaimonDataSource(DataSource):
    """`spark.read.format("paimon")`.

    Spark makes it in a Python process beside the driver, asks for the schema, pickles it, and asks it for a reader
    in another such process; so it keeps what `schema` found.
    """

    _opened: Scan | None = None
    _was_sent = False
    """Whether this object was unpickled: then it ends micro-batches, else it writes them."""

    @classmethod
    def name(cls) -> str:
        """The name after `format`."""
        return "paimon"

    def schema(self) -> StructType:
        """The columns of the read, batch or stream: Spark does not say which it will be. Driver.

        What only a batch or only a stream refuses is left to `reader` and `streamReader`, which know which it is: they
        say it in their own words.
        """
        from paimon_spark.errors import PaimonError
        from paimon_spark.options.stream_read import check_stream_values
        from paimon_spark.spark.schema import spark_schema

        check_stream_values(self.options)
        try:
            return spark_schema(self._scan().row_type)
        except PaimonError as error:
            return self._stream_schema(error)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader of the columns of `schema`: ours, or those the user declared. Driver."""
        from paimon_spark.spark.batch_read import batch_reader

        scan, self._opened = self._scan(), None  # Spark sends this object to executors, which need no scan
        return batch_reader(scan, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch writer of rows of `schema`; a missing table is made. Driver."""
        from paimon_spark.jobs.write.batch import plan_path_write
        from paimon_spark.options.write_request import ROW_LEVEL, WriteMode, canonical_write
        from paimon_spark.spark.batch_write import BatchWriter
        from paimon_spark.spark.schema import arrow_schema, row_type

        options, source = dict(self.options), arrow_schema(schema)
        operation = ROW_LEVEL.get(canonical_write(options))
        if operation is not None:
            from paimon_spark.jobs.row_level.write import plan_path_row_level
            from paimon_spark.spark.row_level_write import row_level_writer

            return row_level_writer(plan_path_row_level(options, source, operation))
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        return BatchWriter(plan_path_write(options, mode, source, lambda: row_type(schema, all_nullable=True)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of a stream of the columns of `schema`. Driver."""
        self._opened = None  # Spark sends this object to executors, which need no scan
        return stream_reader(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """A writer of the rows of one micro-batch, for its tasks; in another process, for its end. Driver."""
        from paimon_spark.spark.stream_write import PaimonStreamWriter, stream_writer

        options = dict(self.options)
        return PaimonStreamWriter(options, overwrite) if self._was_sent else stream_writer(options, schema, overwrite)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._was_sent = True

    def _scan(self) -> Scan:
        if self._opened is None:
            from paimon_spark.jobs.opened_table import split_path
            from paimon_spark.jobs.read.table_scan import open_scan

            self._opened = open_scan(*split_path(self.options))
        return self._opened

    def _stream_schema(self, batch_error: PaimonError) -> StructType:
        """The columns if this is a stream, as a batch read failed. Raises what both kinds of read refuse."""
        from paimon_spark.errors import InvalidOptionError, PaimonError
        from paimon_spark.jobs.opened_table import split_path
        from paimon_spark.jobs.read.stream import asks_for_stream, stream_row_type
        from paimon_spark.spark.schema import spark_schema

        path, options = split_path(self.options)
        try:
            return spark_schema(stream_row_type(path, options))
        except PaimonError as stream_error:
            is_none = isinstance(stream_error, InvalidOptionError) and "path" in stream_error.context  # a system table
            if is_none or stream_error.message == batch_error.message:
                raise batch_error from None
            if asks_for_stream(options):
                raise stream_error from None
        return spark_schema(stream_row_type(path, options, checked=False))


class PaimonPyDataSource(PaimonDataSource):
    """The same source for sessions that also load Paimon's JAR, for which Spark reserves `paimon`."""

    @classmethod
    def name(cls) -> str:
        """The name after `format`."""
        return "paimon_py"


def stream_reader(options: Mapping[str, str], declared: StructType) -> PaimonStreamReader:
    """A reader of the columns of `declared`, with limits where PySpark has them. Opens nothing."""
    try:
        from paimon_spark.spark.stream_limits import LimitedStreamReader
    except ImportError:  # before PySpark 4.2
        from paimon_spark.spark.stream_read import UnlimitedStreamReader

        return UnlimitedStreamReader(options, declared)
    return LimitedStreamReader(options, declared)
