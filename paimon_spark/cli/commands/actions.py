"""Actions of other engines that are no command of ours by another name, and those that are not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from paimon_spark.cli.answer import Answer, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind
from paimon_spark.cli.commands import branch
from paimon_spark.cli.commands.sql import run_procedure
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.text import counted, safe

NOT_HERE: Final[Mapping[str, str]] = {
    "clone": "copy the table's directory: it holds no absolute path",
    "copy-files": "copy the table's directory: it holds no absolute path",
    "compact-chain-table": "use a Java engine",
    "data-evolution-merge-into": "use `paimon-spark sql 'MERGE INTO …'`",
    "merge-into": "use `paimon-spark sql 'MERGE INTO …'`",
    "migrate-database": "write the tables with `paimon-spark sql 'CREATE TABLE … AS SELECT …'`",
    "migrate-table": "write the table with `paimon-spark sql 'CREATE TABLE … AS SELECT …'`",
    "query-service": "use a Java engine",
    "reassign-row-id": "use a Java engine",
    "remove-unexisting-files": "`paimon-spark doctor` says what is missing; roll back to a version that is whole",
    "remove-unexisting-manifests": "`paimon-spark doctor` says what is missing; roll back to a version that is whole",
    "repair": "file-system catalogs need no repair; `paimon-spark doctor --repair` mends a table's refs",
    "rescale": "write the rows into a table with the new number of buckets",
    "rewrite-file-index": "use a Java engine",
}
"""What to do instead, by name."""
_HEAD: Final = {"scan.mode": "latest"}
"""A read of the rows that there are, whatever start the table's options name."""


def _merge_branch(call: Call) -> Answer:
    """PIP-14's merge by `--name`; with `--source-branch`, Paimon 2.1's, which appends."""
    source = call["source_branch"]
    if source is not None:
        if call["name"] is not None:
            raise UsageError("merge-branch: --name is PIP-14's merge, --source-branch Paimon's; give one of them")
        if call["dry_run"]:
            raise UsageError("merge-branch --source-branch takes nothing away and has no dry run")
        return branch.append(Call({**call.values, "name": source, "to": call["target_branch"]}, call.what))
    if call["name"] is None:
        raise UsageError("merge-branch needs --name; see `paimon-spark merge-branch --help`")
    return branch.merge(call)


def _delete(call: Call) -> Answer:
    table, where = call.table(), call["where"]

    def answer(count: int | None, dry_run: bool) -> Answer:
        rows = "rows" if count is None else counted(count, "row")
        told = f"{'would delete' if dry_run else 'deleted'} {rows} of {safe(table.name)} where {safe(where)}"
        return sentence(told, {"dry_run": dry_run, "rows": count, "where": where})

    def plan() -> int | None:
        return sum(int(batch.num_rows) for batch in table.scan(columns=[], where=where, **_HEAD).to_batches())

    def act() -> int | None:
        table.delete(where)
        return None

    return call.deleting(f"delete rows of {table.name} where {where}", plan=plan, act=act, answer=answer)


def _procedure(name: str, *given: str, tables_argument: str = "table") -> Callable[[Call], Answer]:
    """Run a procedure with the values of these arguments that are given."""

    def run(call: Call) -> Answer:
        if call["path"]:
            raise UsageError(f"{call.what}: name the table in its warehouse, and not by --path")
        text = call.table_text
        if call["branch"]:
            text += f"$branch_{call['branch']}"
        named = [(tables_argument, text)]
        for argument in given:
            value = call[argument]
            if value is not None and value != []:
                named.append((argument, ";".join(value) if isinstance(value, list) else str(value)))
        return run_procedure(call, name, (), named)

    return run


def _rollback(procedure: str, argument: str) -> Callable[[Call], Answer]:
    run = _procedure(procedure, argument)

    def confirmed(call: Call) -> Answer:
        def answer(result: Answer | None, dry_run: bool) -> Answer:
            told = f"would roll back to the newest snapshot at {argument} {call[argument]}"
            return result or sentence(told, {"dry_run": True, argument: call[argument]})

        def plan() -> Answer | None:
            call.table()
            return None

        return call.deleting(
            f"roll {call.table_text} back to {argument} {call[argument]}",
            plan=plan,
            act=lambda: run(call),
            answer=answer,
        )

    return confirmed


def _action(
    name: str, told: str, run: Callable[[Call], Answer], *arguments: Argument, kind: Kind = Kind.WRITE
) -> Command:
    return Command(name, None, told, run, arguments, kind, is_action=True)


_TAG = Argument("tag", "tag", positional=True, required=True)
_TIMESTAMP = Argument("timestamp", "epoch milliseconds", required=True)
_WATERMARK = Argument("watermark", "epoch milliseconds", required=True)
_RETAINED = Argument("time_retained", "how long the tag lives, such as `7 d`")

COMMANDS = (
    _action(
        "merge-branch",
        "make a branch's history main's; with --source-branch, add what was appended to it to another branch",
        _merge_branch,
        Argument("name", "branch", positional=True, spellings=("--branch-name",)),
        branch.PUBLISHED,
        branch.NO_BACKUP,
        Argument("source_branch", "branch whose new files are added to --target-branch"),
        Argument("target_branch", "branch that gets them", default="main"),
        kind=Kind.DELETE,
    ),
    _action(
        "delete",
        "delete rows",
        _delete,
        Argument("where", "SQL condition of the rows that go", required=True),
        kind=Kind.DELETE,
    ),
    _action(
        "mark-partition-done",
        "mark partitions as done",
        _procedure("mark_partition_done", "partitions"),
        Argument(
            "partitions",
            "partition: dt=2024-01-01,hour=5; may be repeated",
            required=True,
            repeated=True,
            spellings=("--partition",),
            metavar="COLUMN=VALUE,…",
        ),
    ),
    _action(
        "create-tag-from-timestamp",
        "tag the first snapshot at or after a time",
        _procedure("create_tag_from_timestamp", "tag", "timestamp", "time_retained"),
        _TAG,
        _TIMESTAMP,
        _RETAINED,
    ),
    _action(
        "create-tag-from-watermark",
        "tag the first snapshot at or after a watermark",
        _procedure("create_tag_from_watermark", "tag", "watermark", "time_retained"),
        _TAG,
        _WATERMARK,
        _RETAINED,
    ),
    _action(
        "rollback-to-timestamp",
        "roll back to the newest snapshot at a time",
        _rollback("rollback_to_timestamp", "timestamp"),
        _TIMESTAMP,
        kind=Kind.DELETE,
    ),
    _action(
        "rollback-to-watermark",
        "roll back to the newest snapshot at a watermark",
        _rollback("rollback_to_watermark", "watermark"),
        _WATERMARK,
        kind=Kind.DELETE,
    ),
)
