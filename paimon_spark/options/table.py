"""TableOptions: the options of a table in force, parsed once into groups.

The handle of an opened table carries them. What every read needs is parsed at once; the other groups are parsed when
first used, at most once per handle, so that a bad value fails where it matters and readers do not pay for writers.

To add an option: add a field with its descriptor to its group; `known.py` lists the key by the type of its values, for
checks of stored options.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from paimon_spark.options.core import (
    BUCKET,
    BUCKET_FUNCTION,
    CHANGELOG_PRODUCER,
    COMPACTION_TRIGGER,
    DELETION_VECTORS,
    FALLBACK_BRANCH,
    IGNORE_DELETE,
    MERGE_ENGINE,
    NUM_LEVELS,
    PRIMARY_BRANCH,
    SEQUENCE_NUMBER_COLUMN,
    SEQUENCE_ORDER,
    SPLIT_OPEN_COST,
    BucketFunction,
    ChangelogProducer,
    MergeEngine,
    SortOrder,
)
from paimon_spark.options.descriptor import (
    boolean,
    field_of,
    memory_size,
    names,
    option,
    parse_group,
    string,
)

if TYPE_CHECKING:
    from paimon_spark.options.commit import CommitOptions, ManifestOptions
    from paimon_spark.options.compaction import AppendCompactionOptions, CompactionOptions, RecordExpiryOptions
    from paimon_spark.options.core import MergeOptions
    from paimon_spark.options.data_files import DataFileOptions
    from paimon_spark.options.retention import ExpiryOptions, PartitionExpiryOptions, SavepointOptions, TagOptions
    from paimon_spark.options.write import (
        DynamicBucketOptions,
        PostponedBucketOptions,
        SchemaMergeOptions,
        WriteOptions,
    )


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
        "sequence.field", names, (), "Columns that order the rows of one key before their arrival does."
    )
    sequence_descending: bool
    ignore_delete: bool = field_of(IGNORE_DELETE)
    changelog_producer: ChangelogProducer = field_of(CHANGELOG_PRODUCER)
    deletion_vectors: bool = field_of(DELETION_VECTORS)
    deletion_vectors_merge_on_read: bool = option(
        "deletion-vectors.merge-on-read", boolean, False, "Readers of a deletion vector table merge level 0 too."
    )
    force_lookup: bool = option("force-lookup", boolean, False, "Compaction looks keys up in deeper levels.")
    num_levels: int
    partition_default_name: str = option(
        "partition.default-name", string, "__DEFAULT_PARTITION__", "Directory value of a null or blank partition."
    )
    partition_legacy_name: bool = option(
        "partition.legacy-name", boolean, True, "Partition directories use the internal text of values."
    )
    data_file_directory: str | None = option(
        "data-file.path-directory", string, None, "Directory between the table and its partitions for data files."
    )
    index_in_data_dir: bool = option(
        "index-file-in-data-file-dir", boolean, False, "Index files lie in the bucket directory."
    )
    row_tracking: bool = option("row-tracking.enabled", boolean, False, "Rows have an id and a sequence number.")
    data_evolution: bool = option(
        "data-evolution.enabled", boolean, False, "Files may hold only some columns of a row range."
    )
    split_target_bytes: int = option("source.split.target-size", memory_size, 128 << 20, "Bytes a read task aims at.")
    split_open_cost_bytes: int = field_of(SPLIT_OPEN_COST)
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

    # Groups parsed at first use. Modules are imported where needed: a reading worker needs few of them.

    @cached_property
    def shows_sequence_number(self) -> bool:
        """Whether `$audit_log` and `$binlog` have a sequence number."""
        return SEQUENCE_NUMBER_COLUMN.get(self.raw)

    @cached_property
    def merge(self) -> MergeOptions:
        """Merge functions of columns."""
        from paimon_spark.options.core import parse_merge_options

        return parse_merge_options(self.raw)

    @cached_property
    def read_defaults(self) -> Mapping[str, str]:
        """Text that readers put in place of nulls, by column: the option `fields.<column>.default-value`.

        Only tables made before Paimon 1.3 have it; later ones apply defaults on write, and keep them in the schema.
        """
        prefix, suffix = "fields.", ".default-value"
        return {
            key[len(prefix) : -len(suffix)]: text
            for key, text in self.raw.items()
            if key.startswith(prefix) and key.endswith(suffix)
        }

    @cached_property
    def write(self) -> WriteOptions:
        """Memory of writers and kinds of rows."""
        from paimon_spark.options.write import parse_write_options

        return parse_write_options(self.raw)

    @cached_property
    def schema_merge(self) -> SchemaMergeOptions:
        """What writes add to the schema."""
        from paimon_spark.options.write import SchemaMergeOptions

        return parse_group(SchemaMergeOptions, self.raw)

    @cached_property
    def dynamic_bucket(self) -> DynamicBucketOptions:
        """How new keys find a bucket."""
        from paimon_spark.options.write import parse_dynamic_bucket_options

        return parse_dynamic_bucket_options(self.raw)

    @cached_property
    def postponed_bucket(self) -> PostponedBucketOptions:
        """How many buckets postponed rows get."""
        from paimon_spark.options.write import PostponedBucketOptions

        return parse_group(PostponedBucketOptions, self.raw)

    @cached_property
    def data_files(self) -> DataFileOptions:
        """Formats, sizes and statistics of new data files."""
        from paimon_spark.options.data_files import parse_data_file_options

        return parse_data_file_options(self.raw)

    @cached_property
    def external_paths(self) -> tuple[str, ...]:
        """Where data files lie besides the table."""
        from paimon_spark.options.data_files import EXTERNAL_PATHS

        return EXTERNAL_PATHS.get(self.raw)

    @cached_property
    def commit(self) -> CommitOptions:
        """Retries and checks of commits."""
        from paimon_spark.options.commit import parse_commit_options

        return parse_commit_options(self.raw)

    @cached_property
    def manifests(self) -> ManifestOptions:
        """Format and size of new manifests."""
        from paimon_spark.options.commit import ManifestOptions

        return parse_group(ManifestOptions, self.raw)

    @cached_property
    def compaction(self) -> CompactionOptions:
        """When buckets of keys are compacted."""
        from paimon_spark.options.compaction import parse_compaction_options

        return parse_compaction_options(self.raw)

    @cached_property
    def append_compaction(self) -> AppendCompactionOptions:
        """Which files without keys are compacted."""
        from paimon_spark.options.compaction import parse_append_compaction_options

        return parse_append_compaction_options(self.raw)

    @cached_property
    def record_expiry(self) -> RecordExpiryOptions | None:
        """How long rows are kept; None: forever."""
        from paimon_spark.options.compaction import parse_record_expiry_options

        return parse_record_expiry_options(self.raw)

    @cached_property
    def expiry(self) -> ExpiryOptions:
        """Retention of snapshots, changelogs and consumers."""
        from paimon_spark.options.retention import parse_expiry_options

        return parse_expiry_options(self.raw)

    @cached_property
    def partition_expiry(self) -> PartitionExpiryOptions | None:
        """When partitions are dropped; None: never."""
        from paimon_spark.options.retention import parse_partition_expiry

        return parse_partition_expiry(self.raw)

    @cached_property
    def tags(self) -> TagOptions:
        """Retention and automatic creation of tags."""
        from paimon_spark.options.retention import parse_tag_options

        return parse_tag_options(self.raw)

    @cached_property
    def savepoints(self) -> SavepointOptions | None:
        """When savepoints are created automatically; None: never."""
        from paimon_spark.options.retention import parse_savepoint_options

        return parse_savepoint_options(self.raw)


def parse_table_options(raw: Mapping[str, str]) -> TableOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    levels = NUM_LEVELS.get(raw)
    return parse_group(
        TableOptions,
        raw,
        sequence_descending=SEQUENCE_ORDER.get(raw) is SortOrder.DESCENDING,
        num_levels=levels if levels is not None else COMPACTION_TRIGGER.get(raw) + 1,
        raw=dict(raw),
    )
