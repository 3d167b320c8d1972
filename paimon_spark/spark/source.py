"""The data source that Spark knows as `paimon`, and as `paimon_py` where a JAR has the first name.

Spark imports this module in every session that looks for data sources: it imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType

    from paimon_spark.table.scan import Scan


class PaimonDataSource(DataSource):
    """`spark.read.format("paimon")`.

    Spark makes it in a Python process beside the driver, asks for the schema, pickles it, and asks it for a reader
    in another such process; that is why what `schema` found out is kept.
    """

    _opened: Scan | None = None

    @classmethod
    def name(cls) -> str:
        """The name after `format`."""
        return "paimon"

    def schema(self) -> StructType:
        """The columns of the read. Driver."""
        from paimon_spark.spark.schema import spark_schema

        return spark_schema(self._scan().row_type)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader of the columns of `schema`: ours, or those the user declared. Driver."""
        from paimon_spark.spark.batch_read import batch_reader

        scan, self._opened = self._scan(), None  # Spark sends this object to executors, which need no scan
        return batch_reader(scan, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch writer of rows of `schema`; a missing table is made. Driver."""
        from paimon_spark.spark.batch_write import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """Refused: streaming reads are not available yet."""
        raise self._unavailable("streaming reads are", "spark.readStream")

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Refused: streaming writes are not available yet."""
        raise self._unavailable("streaming writes are", "df.writeStream")

    def _scan(self) -> Scan:
        if self._opened is None:
            from paimon_spark.spark.options import scan_of

            self._opened = scan_of(dict(self.options))
        return self._opened

    def _unavailable(self, what: str, call: str) -> Exception:
        from paimon_spark.errors import UnsupportedFeatureError

        return UnsupportedFeatureError(
            f"{call}.format({self.name()!r}): {what} not available yet in this version of paimon-spark; "
            "batch reads and writes are: spark.read and df.write",
            feature=what.rpartition(" ")[0],
        )


class PaimonPyDataSource(PaimonDataSource):
    """The same source for sessions that also load Paimon's JAR, whose name Spark prefers."""

    @classmethod
    def name(cls) -> str:
        """The name after `format`."""
        return "paimon_py"
