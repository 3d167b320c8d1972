"""What a stream cannot be asked of a table.

Source: Java `schema/SchemaValidation`, which looks at options that a table stores; a read may give them as well.
"""

from __future__ import annotations

from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.maintenance.consumers import consumer_path
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.stream_read import READ_APPEND_OVERWRITE, READ_OVERWRITE, StreamReadOptions
from paimon_spark.options.table import ChangelogProducer

_MAKES_CHANGELOG: Final = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def check_stream(handle: TableHandle, asked: StreamReadOptions) -> None:
    """Check that the options of a stream go with its table.

    Raises:
        InvalidOptionError: overwrites cannot be read as is asked.
        InvalidInputError: no consumer can be called so.
    """
    keyed, producer = bool(handle.schema.primary_keys), handle.options.changelog_producer
    if asked.read_overwrite and not keyed:
        raise _refuse(
            handle, READ_OVERWRITE.key, f"needs a primary key; give {READ_APPEND_OVERWRITE.key} = true for this table"
        )
    if asked.read_overwrite and producer in _MAKES_CHANGELOG:
        raise _refuse(
            handle,
            READ_OVERWRITE.key,
            f"does not go with changelog-producer = {producer.value}, whose changelog holds overwrites too: they would "
            "be read twice; leave the option out",
        )
    if asked.read_append_overwrite and keyed and READ_APPEND_OVERWRITE.key in handle.overrides:
        raise _refuse(
            handle,
            READ_APPEND_OVERWRITE.key,
            f"is for tables without a primary key; give {READ_OVERWRITE.key} = true for this table",
        )
    if asked.consumer is not None:
        consumer_path(handle, asked.consumer)


def _refuse(handle: TableHandle, key: str, why: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option {key} = true of a stream of {handle.describe()} {why}",
        option=key,
        table=handle.name,
        branch=handle.branch,
    )
