"""TableOptions: the options of a table in force, parsed once into groups.

The handle of an opened table carries them. What every read needs is parsed at once; the other groups are parsed when
first used, at most once per handle, so that a bad value fails where it matters and readers do not pay for writers.

To add an option: add a field with its descriptor to its group; `known.py` lists the key by the type of its values, for
checks of stored options.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

from paimon_spark.options.compaction import (
    parse_append_compaction_options,
    parse_compaction_options,
    parse_record_expiry_options,
)
from paimon_spark.options.core import (
    BUCKET,
    BUCKET_FUNCTION,
    CHANGELOG_PRODUCER,
    COMPACTION_TRIGGER,
    DELETION_VECTORS,
    FALLBACK_BRANCH,
    IGNORE_DELETE,
    MERGE_ENGINE,
    MERGE_ON_READ,
    NUM_LEVELS,
    PRIMARY_BRANCH,
    SEQUENCE_NUMBER_COLUMN,
    SEQUENCE_ORDER,
    SPLIT_OPEN_COST,
    BucketFunction,
    ChangelogProducer,
    MergeEngine,
    SortOrder,
    parse_merge_options,
)
from paimon_spark.options.data_files import (
    EXTERNAL_PATHS,
    READ_ENABLED,
    parse_data_file_options,
    parse_file_index_options,
)
from paimon_spark.options.descriptor import (
    boolean,
    field_of,
    memory_size,
    names,
    option,
    parse_group,
    string,
    texts_by_column,
)
from paimon_spark.options.retention import (
    parse_expiry_options,
    parse_partition_expiry,
    parse_savepoint_options,
    parse_tag_options,
)
from paimon_spark.options.write import (
    ManifestOptions,
    PostponedBucketOptions,
    SchemaMergeOptions,
    parse_commit_options,
    parse_dynamic_bucket_options,
    parse_write_options,
)

T = TypeVar("T")


def _group(parse: Callable[[Mapping[str, str]], T]) -> cached_property[T]:
    """A group of options that `TableOptions` parses when it is first used."""
    return cached_property(lambda options: parse(options.raw))


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The options of a table in force for one use: stored ones, overridden by those given. Picklable.

    Attributes:
        fallback_branch: branch that is read where a partition is not in the branch in force; empty for none.
        primary_branch: branch whose partitions are read first; empty for none.
        raw: all option text, for storing, changing and showing it; values are read from the groups.
    """

    bucket: int = field_of(BUCKET)
    bucket_function: BucketFunction = field_of(BUCKET_FUNCTION)
    merge_engine: MergeEngine = field_of(MERGE_ENGINE)
    sequence_fields: tuple[str, ...] = option(
        "sequence.field",
        names,
        (),
        "Columns that order the rows of one key; rows with equal values are ordered by arrival.",
    )
    sequence_descending: bool
    ignore_delete: bool = field_of(IGNORE_DELETE)
    changelog_producer: ChangelogProducer = field_of(CHANGELOG_PRODUCER)
    deletion_vectors: bool = field_of(DELETION_VECTORS)
    deletion_vectors_merge_on_read: bool = field_of(MERGE_ON_READ)
    force_lookup: bool = option("force-lookup", boolean, False, "Compaction looks up keys in deeper levels.")
    num_levels: int
    partition_default_name: str = option(
        "partition.default-name", string, "__DEFAULT_PARTITION__", "Directory name of a null or blank partition value."
    )
    partition_legacy_name: bool = option(
        "partition.legacy-name", boolean, True, "Use the internal text of values in names of partition directories."
    )
    data_file_directory: str | None = option(
        "data-file.path-directory", string, None, "Directory of data files between the table and its partitions."
    )
    index_in_data_dir: bool = option(
        "index-file-in-data-file-dir", boolean, False, "Store index files in the bucket directory."
    )
    row_tracking: bool = option("row-tracking.enabled", boolean, False, "Rows have a row id and a sequence number.")
    data_evolution: bool = option(
        "data-evolution.enabled", boolean, False, "Files may store only some columns of a range of rows."
    )
    split_target_bytes: int = option("source.split.target-size", memory_size, 128 << 20, "Target size of a split.")
    split_open_cost_bytes: int = field_of(SPLIT_OPEN_COST)
    reads_file_indexes: bool = field_of(READ_ENABLED)
    fallback_branch: str = field_of(FALLBACK_BRANCH)
    primary_branch: str = field_of(PRIMARY_BRANCH)
    raw: Mapping[str, str] = field(repr=False)

    @property
    def need_lookup(self) -> bool:
        """Whether files above level 0 hold fully merged rows (Java `CoreOptions.needLookup`)."""
        return self.deletion_vectors or self.force_lookup or self.changelog_producer is ChangelogProducer.LOOKUP

    def changed(self, values: Mapping[str, str | None]) -> TableOptions:
        """The options with other text for some keys; None removes a key. Raises as `parse_table_options`."""
        merged = {**self.raw, **values}
        return parse_table_options({key: text for key, text in merged.items() if text is not None})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text alone: it is small, and groups that were parsed here are rarely needed elsewhere."""
        return parse_table_options, (dict(self.raw),)

    # Groups parsed at first use.

    merge = _group(parse_merge_options)
    """Merge functions of columns."""
    write = _group(parse_write_options)
    """Memory of writers and kinds of rows."""
    schema_merge = _group(partial(parse_group, SchemaMergeOptions))
    """What writes add to the schema."""
    dynamic_bucket = _group(parse_dynamic_bucket_options)
    """How new keys find a bucket."""
    postponed_bucket = _group(partial(parse_group, PostponedBucketOptions))
    """How postponed rows are read, and how many buckets they get."""
    data_files = _group(parse_data_file_options)
    """Formats, sizes and statistics of new data files."""
    file_indexes = _group(parse_file_index_options)
    """Indexes of new data files."""
    external_paths = _group(EXTERNAL_PATHS.get)
    """Where data files lie besides the table."""
    commit = _group(parse_commit_options)
    """Retries and checks of commits."""
    manifests = _group(partial(parse_group, ManifestOptions))
    """Format and size of new manifests."""
    compaction = _group(parse_compaction_options)
    """When buckets of keys are compacted."""
    append_compaction = _group(parse_append_compaction_options)
    """Which files without keys are compacted."""
    record_expiry = _group(parse_record_expiry_options)
    """How long rows are kept; None: forever."""
    expiry = _group(parse_expiry_options)
    """Retention of snapshots, changelogs and consumers."""
    partition_expiry = _group(parse_partition_expiry)
    """When partitions are dropped; None: never."""
    tags = _group(parse_tag_options)
    """Retention and automatic creation of tags."""
    savepoints = _group(parse_savepoint_options)
    """When savepoints are created automatically; None: never."""
    shows_sequence_number = _group(SEQUENCE_NUMBER_COLUMN.get)
    """Whether `$audit_log` and `$binlog` have a sequence number."""

    @cached_property
    def read_defaults(self) -> Mapping[str, str]:
        """Text that readers put in place of nulls, by column: the option `fields.<column>.default-value`.

        Only tables made before Paimon 1.3 have it; later ones apply defaults on write, and keep them in the schema.
        """
        return texts_by_column(self.raw, ".default-value")


def parse_table_options(raw: Mapping[str, str]) -> TableOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return _parsed(tuple(raw.items()))


@lru_cache(maxsize=64)  # a table is opened for each read and write of it, mostly with the same options
def _parsed(items: tuple[tuple[str, str], ...]) -> TableOptions:
    raw = dict(items)
    levels = NUM_LEVELS.get(raw)
    return parse_group(
        TableOptions,
        raw,
        sequence_descending=SEQUENCE_ORDER.get(raw) is SortOrder.DESCENDING,
        num_levels=levels if levels is not None else COMPACTION_TRIGGER.get(raw) + 1,
        raw=raw,
    )
