"""Savepoints of a branch."""

from __future__ import annotations

from paimon_spark.cli.answer import Answer, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind
from paimon_spark.cli.removed import removal
from paimon_spark.cli.text import moment, safe

_ID = Argument("id", "id of the savepoint, which is that of its snapshot", positional=True, required=True, parse=int)


def _list(call: Call) -> Answer:
    found = call.table().savepoints()
    shown = [(s.id, moment(s.snapshot.time_ms), s.snapshot.schema_id, s.snapshot.total_record_count) for s in found]
    return rows(("id", "committed", "schema", "rows"), shown, data=found, empty="no savepoints")


def _create(call: Call) -> Answer:
    table = call.table()
    made = table.create_savepoint()
    return sentence(f"savepoint {made.id} of {safe(table.name)}", made)


def _delete(call: Call) -> Answer:
    table, found = call.table(), call["id"]
    what = f"savepoint {found} of {safe(table.name)}"
    return call.deleting(
        f"delete {what}",
        plan=lambda: table.delete_savepoint(found, dry_run=True),
        act=lambda: table.delete_savepoint(found),
        answer=lambda removed, dry_run: removal(f"deleted {what}", f"would delete {what}", removed, dry_run),
    )


COMMANDS = (
    Command("savepoint", "list", "list the savepoints of a branch", _list),
    Command(
        "savepoint",
        "create",
        "compact the branch fully, and keep the snapshot that this makes",
        _create,
        kind=Kind.WRITE,
        aliases=("create-savepoint",),
    ),
    Command(
        "savepoint",
        "delete",
        "delete a savepoint, and the files that nothing else needs",
        _delete,
        (_ID,),
        Kind.DELETE,
        aliases=("delete-savepoint",),
    ),
)
