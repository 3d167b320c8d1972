"""A read as a PyArrow Dataset, which takes the columns and conditions of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.predicate.other_engines import names_of, pushed_down

if TYPE_CHECKING:
    from paimon_spark.jobs.scan import Scan

_OPTIONS: Final = frozenset(("use_threads", "memory_pool", "batch_size"))
"""Options of a scanner that apply to batches that were read."""


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of a read, of one snapshot, as often as they are asked for.

    Columns, and what of a condition can skip files, reach the read; Arrow evaluates the condition itself, too.
    There are no fragments: rows of several files may be merged.
    """

    def __init__(self, scan: Scan) -> None:
        """Raises as `Scan.pinned`."""
        self._scan = scan.pinned()

    def __reduce__(self) -> tuple[type[ScanDataset], tuple[Scan]]:
        return ScanDataset, (self._scan,)

    def __repr__(self) -> str:
        return f"<dataset of {self._scan}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scan.arrow_schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """Scanner that reads the rows once.

        Args:
            columns: names, or expressions by the names of the results; None for all columns.
            filter: condition of the rows.
            options: others of `pyarrow.dataset.Scanner`; those of files have no effect.

        Raises as `Scan.to_batches`.
        """
        scan = self._scan.project(self._needed(columns, filter))
        pushed = None if filter is None else pushed_down(filter, scan.schema.row_type)
        if pushed is not None and scan.max_rows is None:  # a limit of the read comes before the condition
            scan = scan.filtered([pushed])
        kept = {k: v for k, v in options.items() if k in _OPTIONS and v is not None}
        given = dict(columns) if isinstance(columns, Mapping) else columns
        return ds.Scanner.from_batches(scan.to_batches(), columns=given, filter=filter, **kept)

    def _needed(
        self, columns: Sequence[str] | Mapping[str, pc.Expression] | None, condition: pc.Expression | None
    ) -> Sequence[str]:
        """The columns to read; all where it is not known which an expression reads."""
        every = self._scan.row_type.names
        needed = set(every if columns is None else () if isinstance(columns, Mapping) else columns)
        for expression in (*(columns.values() if isinstance(columns, Mapping) else ()), condition):
            named = frozenset() if expression is None else names_of(expression)
            if named is None:
                return every
            needed |= named
        return [*(name for name in every if name in needed), *sorted(needed - set(every))] or every[:1]

    def get_fragments(self, *_: object, **__: object) -> NoReturn:
        """Refuse: rows of several files may be merged."""
        raise _refused("get_fragments")

    def filter(self, *_: object, **__: object) -> NoReturn:
        """Refuse: conditions are given to the read, or to `to_table` and similar methods."""
        raise _refused("filter")

    def replace_schema(self, *_: object, **__: object) -> NoReturn:
        """Refuse: columns are those of the read."""
        raise _refused("replace_schema")

    def sort_by(self, *_: object, **__: object) -> NoReturn:
        """Refuse: Arrow sorts datasets of files only."""
        raise _refused("sort_by")

    def join(self, *_: object, **__: object) -> NoReturn:
        """Refuse: Arrow joins datasets of files only."""
        raise _refused("join")

    def join_asof(self, *_: object, **__: object) -> NoReturn:
        """Refuse: Arrow joins datasets of files only."""
        raise _refused("join_asof")

    @property
    def partition_expression(self) -> pc.Expression:
        """Condition that holds for all rows: always true."""
        return pc.scalar(True)


def _refused(method: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{method}() is not available for the dataset of a Paimon table; use to_table(columns=…, filter=…), which "
        "returns an Arrow table, to_batches() or scanner()",
        feature=f"Dataset.{method}",
    )
