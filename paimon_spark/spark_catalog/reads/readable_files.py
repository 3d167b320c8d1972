"""Which data files Spark's own readers of Parquet and ORC can read as they lie.

A file can be read as it lies when its rows are rows of the table: no deletion vectors, no merging, no retracts, columns
of the same types. What the table calls its columns now may differ from the file: Parquet columns are found by field id
then, and files without a column have null. Any doubt means that Python reads.

Source: Spark `datasources/parquet/ParquetReadSupport.scala`, `datasources/orc/OrcUtils.scala`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from paimon_spark.engine.read.file_reader import fields_in, schema_of
from paimon_spark.engine.tasks import DataSplit, ReadRequest, SplitMode
from paimon_spark.options.lineage import JOB
from paimon_spark.spark_catalog.reads.footers import (
    PAIMON_FILE,
    Footer,
    footers,
    has_exact_times,
    has_ids_of,
    has_several_forms,
    is_as_expected,
)
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    RowType,
    TimestampType,
)

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.data_file import DataFileMeta
    from paimon_spark.jobs.read.scan import Scan
    from paimon_spark.storage.store import Store

PARQUET: Final = "parquet"
ORC: Final = "orc"
_SPARK_MICROS: Final = 6
_ATOMS: Final = frozenset(("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"))
_POSITIONAL: Final = "_col"
"""Begins the names of columns in ORC files of old Hive, whose columns Spark finds by position."""


class SparkReader(NamedTuple):
    """One of Spark's readers: the format, and whether columns are found by their field ids."""

    format: str
    by_id: bool


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """Files of a plan that one of Spark's readers can read.

    Attributes:
        reader: which.
        fields: the columns that come from files, as the table has them.
        splits: whose files they are.
        skippable: names of columns by whose conditions the reader may skip parts of all these files.
    """

    reader: SparkReader
    fields: tuple[DataField, ...]
    splits: tuple[DataSplit, ...]
    skippable: frozenset[str]


def readable_files(scan: Scan) -> tuple[list[ReadableFiles], Sequence[DataSplit]]:
    """The files of a plan that Spark's readers can read, by reader, and the splits that Python must read.

    Without files there is one reader, which has nothing to read. Raises as `Scan.plan`.
    """
    plan, fields = scan.plan(), _fields(scan)
    if fields is None:
        return [], plan.splits
    splits = tuple(plan.splits)
    if not splits:
        return [ReadableFiles(SparkReader(PARQUET, False), fields, (), frozenset())], ()
    forms = _forms(fields, splits, plan.requests)
    return _assembled(fields, splits, _chosen(fields, splits, forms, plan.requests))


def may_read_files(scan: Scan) -> bool:
    """Whether rows of files may be rows of the read at all."""
    if scan.is_system:
        return False
    handle, asked = scan.handle, scan.options
    if JOB.key in handle.overrides or handle.options.read_defaults:
        return False
    return not asked.row_kind and asked.where is None and asked.incremental is None


def _fields(scan: Scan) -> tuple[DataField, ...] | None:
    """The columns to read from files; None where one of the read needs Python."""
    if not may_read_files(scan):
        return None
    row_type, keys = scan.row_type, scan.handle.schema.partition_keys
    table = {f.id: f for f in scan.schema.fields}
    names = {f.name.lower() for f in row_type}  # Spark finds names in any case
    if len(names) < len(row_type) or not all(f.id in table and _is_supported(f.type) for f in row_type):
        return None
    return tuple(f for f in row_type if f.name not in keys)


def _is_supported(t: DataType) -> bool:
    """Whether Spark reads the type from Paimon's files as this package does."""
    match t:
        case AtomicType(name=name):
            return name in _ATOMS
        case TimestampType():
            return t.precision <= _SPARK_MICROS
        case ArrayType():
            return _is_supported(t.element)
        case MapType():
            return _is_supported(t.key) and _is_supported(t.value)
        case RowType():
            names = {f.name.lower() for f in t}
            return 0 < len(t) == len(names) and all(_is_supported(f.type) for f in t)
    return isinstance(t, CharType | BinaryType | DecimalType)


def _is_plain_in_orc(t: DataType) -> bool:
    """Whether ORC has one form of the type: dates and timestamps depend on calendars and time zones."""
    if isinstance(t, AtomicType):
        return t.name != "DATE"
    return isinstance(t, CharType | BinaryType | DecimalType) and not (isinstance(t, CharType) and not t.varying)


class _Form(NamedTuple):
    """How rows and columns are found in a file.

    Attributes:
        needs_ids: whether the file calls columns otherwise than the table.
        same: names of the columns that it calls alike.
        may_have_retracts: whether only the file's statistics can tell that all its rows count.
    """

    format: str
    needs_ids: bool
    same: frozenset[str]
    may_have_retracts: bool = False


class _Choice(NamedTuple):
    """The reader of a file, and by which columns it may skip parts of it."""

    reader: SparkReader
    skippable: frozenset[str]


_Requests = Mapping[str, ReadRequest]
_Place = tuple[int, int]
"""Number of a split, and of a file in it."""


def _forms(fields: Sequence[DataField], splits: Sequence[DataSplit], requests: _Requests) -> dict[_Place, _Form]:
    """The form of each file that can be read as it lies, as far as metadata says."""
    out: dict[_Place, _Form] = {}
    known: dict[tuple[str, int, str], _Form | None] = {}
    for n, split in enumerate(splits):
        if split.mode is not SplitMode.RAW:
            continue
        request = requests[split.branch]
        has_keys = bool(request.schema.primary_keys)
        for i, file in enumerate(split.files):
            may_have_retracts = has_keys and not file.has_no_retracts
            if file.external_path is not None or (may_have_retracts and file.delete_row_count != 0):
                continue
            if split.deletion_of(i) is not None or not _is_whole(request, split, file):
                continue
            key = (split.branch, file.schema_id, file.file_name.rpartition(".")[2])
            if key not in known:
                known[key] = _form(fields, request, split, file, key[2])
            form = known[key]
            if form is None or (form.format == ORC and (may_have_retracts or not _is_of_paimon(file))):
                continue  # only footers of Parquet are looked at
            out[n, i] = form._replace(may_have_retracts=True) if may_have_retracts else form
    return out


def _is_of_paimon(file: DataFileMeta) -> bool:
    """Whether a writer of Paimon certainly made a file."""
    return file.file_name.startswith(PAIMON_FILE)


def _is_whole(request: ReadRequest, split: DataSplit, file: DataFileMeta) -> bool:
    """Whether a file has all columns of its schema."""
    if file.write_cols is None:
        return True
    schema = schema_of(request, split, file)
    return len(fields_in(file, schema)) == len(schema.fields)


def _form(
    fields: Sequence[DataField], request: ReadRequest, split: DataSplit, file: DataFileMeta, format_name: str
) -> _Form | None:
    """How the columns are found in files of a schema; None where they need more than Spark's reader does."""
    if format_name not in (PARQUET, ORC):
        return None
    there = schema_of(request, split, file).fields
    by_id = {f.id: f for f in there}
    names = Counter(f.name.lower() for f in there)  # Spark finds names in any case
    needs_ids, same = False, set()
    for field in fields:
        found = by_id.get(field.id)
        if found is None:
            needs_ids = needs_ids or field.name.lower() in names  # another column had this name
        elif names[found.name.lower()] > 1 or not _has_same_values(found.type, field.type):
            return None
        elif found.name != field.name:
            needs_ids = True
        else:
            same.add(field.name)
    if format_name == ORC and (
        needs_ids
        or all(name.startswith(_POSITIONAL) for name in names)
        or not all(_is_plain_in_orc(f.type) for f in fields)
    ):
        return None
    return _Form(format_name, needs_ids, frozenset(same))


def _has_same_values(found: DataType, wanted: DataType) -> bool:
    """Whether values of a file are values of the column as they are."""
    match found, wanted:
        case CharType(varying=True), CharType(varying=True):
            return found.length <= wanted.length
    return found.with_nullable(True) == wanted.with_nullable(True)


def _chosen(
    fields: Sequence[DataField],
    splits: Sequence[DataSplit],
    forms: Mapping[_Place, _Form],
    requests: _Requests,
) -> dict[_Place, _Choice]:
    """The reader of each file whose footer says what is expected, too."""
    out = {at: _Choice(SparkReader(ORC, False), form.same) for at, form in forms.items() if form.format == ORC}
    parquet = {at: form for at, form in forms.items() if form.format == PARQUET}
    by_id = any(form.needs_ids for form in parquet.values())
    out.update(_checked(fields, splits, parquet, requests, by_id=by_id))
    if by_id:  # files without ids may still be read by name
        rest = {at: form for at, form in parquet.items() if at not in out and not form.needs_ids}
        out.update(_checked(fields, splits, rest, requests, by_id=False))
    return out


def _checked(
    fields: Sequence[DataField],
    splits: Sequence[DataSplit],
    forms: Mapping[_Place, _Form],
    requests: _Requests,
    *,
    by_id: bool,
) -> Iterator[tuple[_Place, _Choice]]:
    """The Parquet files that can be read, by their footers where their types have several forms."""
    doubtful = by_id or any(has_several_forms(f.type) for f in fields)
    reader = SparkReader(PARQUET, by_id)
    places = []
    for at, form in forms.items():
        if doubtful or form.may_have_retracts or not _is_of_paimon(splits[at[0]].files[at[1]]):
            places.append(at)
        else:
            yield at, _Choice(reader, form.same)
    for at, footer in zip(places, _footers(places, splits, requests), strict=True):
        split, (_, _, same, may_have_retracts) = splits[at[0]], forms[at]
        if footer is None or (may_have_retracts and not footer.has_only_inserts):
            continue
        there = {f.id: f for f in schema_of(requests[split.branch], split, split.files[at[1]]).fields}
        if _is_good(footer, fields, there, by_id=by_id):
            yield at, _Choice(reader, frozenset(name for name in same if has_exact_times(footer, name)))


def _footers(places: Sequence[_Place], splits: Sequence[DataSplit], requests: _Requests) -> Iterator[Footer | None]:
    if not places:
        return iter(())
    store: Store = requests[splits[places[0][0]].branch].store
    return footers(store, [splits[n].path_of(splits[n].files[i]) for n, i in places])


def _is_good(footer: Footer, fields: Sequence[DataField], there: Mapping[int, DataField], *, by_id: bool) -> bool:
    if by_id and not has_ids_of(footer, there.values()):
        return False
    return all(is_as_expected(footer, there[f.id].name, f) for f in fields if f.id in there)


def _assembled(
    fields: tuple[DataField, ...], splits: Sequence[DataSplit], chosen: Mapping[_Place, _Choice]
) -> tuple[list[ReadableFiles], Sequence[DataSplit]]:
    """The files of each reader, and those of none. Files that are read as they lie need not stay together."""
    by_reader: dict[SparkReader | None, list[DataSplit]] = {}
    for n, split in enumerate(splits):
        readers = [choice.reader if (choice := chosen.get((n, i))) else None for i in range(len(split.files))]
        different = dict.fromkeys(readers)
        for reader in different or (None,):
            part = split if len(different) < 2 else _files_of(split, [r == reader for r in readers])
            by_reader.setdefault(reader, []).append(part)
    rest = by_reader.pop(None, [])
    skippable: dict[SparkReader, frozenset[str]] = {}
    for choice in chosen.values():
        skippable[choice.reader] = skippable.get(choice.reader, choice.skippable) & choice.skippable
    found = [ReadableFiles(r, fields, tuple(some), skippable[r]) for r, some in by_reader.items() if r is not None]
    return found, rest


def _files_of(split: DataSplit, wanted: Sequence[bool]) -> DataSplit:
    """Some files of a split."""
    return replace(
        split, files=tuple(compress(split.files, wanted)), deletions=tuple(compress(split.deletions, wanted))
    )
