"""Operations, their arguments, and the request that runs one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from paimon_spark.errors import InvalidInputError, SnapshotNotFoundError

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.operations.answer import Answer

Rows: TypeAlias = Iterable[Sequence[Any]]

DONE = "result BOOLEAN"
"""The columns of procedures that only return true."""


class UsageError(InvalidInputError):
    """A wrong command line."""

    kind = "usage"


class Type(StrEnum):
    """Type of an argument, by Spark's name."""

    STRING = "STRING"
    BIGINT = "BIGINT"
    INT = "INT"
    BOOLEAN = "BOOLEAN"
    MAP = "MAP<STRING, STRING>"


class Effect(StrEnum):
    """Effect of an operation: READ changes nothing; DELETE may remove something, so commands confirm it first."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"


class Subject(StrEnum):
    """Subject of an operation: a TABLE (its first argument), the WAREHOUSE, or NOTHING that is stored."""

    TABLE = "table"
    WAREHOUSE = "warehouse"
    NOTHING = "nothing"


class Style(StrEnum):
    """Where an argument can be given: in a CALL, on the command line, or in both."""

    BOTH = "both"
    CALL = "call"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        name: parameter of the procedure, as Paimon's Spark connector has it, and key of the value. A CALL may write it
            in any case, and with or without underscores.
        help: a phrase without a full stop.
        required: whether it must be given.
        default: value when it is not given.
        otherwise: what applies when it is not given, for help.
        is_own: whether Paimon's procedure lacks it. A CALL can give it by name only.
        option: name of the command-line option where it is not `name`.
        spellings: other spellings of the option, such as `-n` or `--branch-name`.
        positional: whether the command line takes it by position, besides `--<option>`.
        is_flag: whether the option takes no value.
        repeated: whether the option may be given several times; the value is a list. A repeated positional is last.
        parse: text of the command line → value; raises ValueError.
        metavar: what help calls the value.
        choices: the only values on the command line.
        is_moment: whether it is a point in time (`older_than` may be an age, too), which a CALL returns as it was
            understood, in a column of its name.
    """

    name: str
    help: str
    type: Type = Type.STRING
    required: bool = False
    default: Any = None
    otherwise: str = ""
    style: Style = Style.BOTH
    is_own: bool = False
    option: str = ""
    spellings: tuple[str, ...] = ()
    positional: bool = False
    is_flag: bool = False
    repeated: bool = False
    parse: Callable[[str], Any] | None = None
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_moment: bool = False

    @property
    def flag(self) -> str:
        """`--<option>`."""
        return "--" + (self.option or self.name).replace("_", "-")

    @property
    def shown(self) -> str:
        """Name of the value in help."""
        return self.metavar or self.flag[2:].upper()

    @property
    def description(self) -> str:
        """The help with the choices and what applies when it is not given."""
        choices = f"; one of {', '.join(self.choices)}" if self.choices else ""
        default = self.otherwise or ("" if self.is_flag or self.default is None else str(self.default))
        return f"{self.help}{choices}" + (f" (default: {default})" if default else "")


def command_flag(name: str, help: str, *spellings: str) -> Argument:
    """An option of the command line without a value."""
    return Argument(name, help, is_flag=True, default=False, spellings=spellings, style=Style.COMMAND)


def flag(name: str, help: str, **more: Any) -> Argument:
    """An option without a value, which is a BOOLEAN of a CALL."""
    return Argument(name, help, Type.BOOLEAN, is_flag=True, default=False, **more)


def repeated(name: str, help: str, metavar: str, **more: Any) -> Argument:
    """An option that may be given several times."""
    return Argument(name, f"{help}; may be repeated", repeated=True, metavar=metavar, **more)


def positional(
    name: str,
    help: str,
    option: str = "",
    *spellings: str,
    type: Type = Type.STRING,
    required: bool = True,
    **more: Any,
) -> Argument:
    """An argument that the command line takes by position, or as `--<option>`."""
    return Argument(name, help, type, required, positional=True, option=option, spellings=spellings, **more)


def key_value(text: str) -> tuple[str, str]:
    """`key=value` as two texts. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError("expected KEY=VALUE")
    return key.strip(), value


def names_of(text: str) -> tuple[str, ...]:
    """`a, b` as names. Raises ValueError."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("expected names separated by commas")
    return found


def table_names(request: Request) -> list[str]:
    """The names in argument `tables`, which the command line takes one by one, and a CALL with commas between."""
    given = request["tables"]
    return [request.table_name(text) for text in (given if isinstance(given, list) else given.split(","))]


class Request(ABC):
    """One run of an operation. Subclasses find the catalog and its tables.

    Attributes:
        values: of the arguments, by name; those not given have their default.
        caller: the operation as messages call it: `sys.create_tag`, `tag create`.
        is_call: whether a CALL asks. Paimon's procedures tolerate more than commands do.
        dry_run: whether to only find out what would be done.
    """

    is_call = False

    def __init__(self, values: Mapping[str, Any], caller: str, *, dry_run: bool = False) -> None:
        self.values, self.caller, self.dry_run = values, caller, dry_run

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)

    @abstractmethod
    def catalog(self, *, may_create: bool = False) -> Catalog:
        """The catalog of the warehouse; with `may_create` the warehouse need not exist yet."""

    @abstractmethod
    def table(self, text: str | None = None) -> Table:
        """The table that the operation is about, or the one that `text` names."""

    @abstractmethod
    def table_name(self, text: str) -> str:
        """The name of another table as the catalog takes it."""

    @property
    @abstractmethod
    def table_text(self) -> str:
        """The table as the user wrote it."""

    def start_spark(self) -> None:  # noqa: B027 - a CALL runs in a session
        """Start the session that the operation needs, where none is active."""

    def planned(self) -> Request:
        """The same request as a dry run."""
        found = copy.copy(self)
        found.dry_run = True
        return found

    def did(self, past: str, verb: str) -> str:
        """`deleted`, or `would delete` in a dry run."""
        return f"would {verb}" if self.dry_run else past

    def reworded(self, message: str) -> str:
        """A message of the library with the argument names of the caller."""
        return message

    @property
    def time_zone(self) -> str | None:
        """Zone of times that are written without one; None for that of the Spark session, else the machine's."""
        return None

    def moment(self, name: str) -> int | None:
        """A point in time, in epoch milliseconds, which may be given as digits. Raises InvalidInputError."""
        from paimon_spark.metadata.version import cutoff_ms, moment_ms
        from paimon_spark.text import id_of

        text = self[name]
        if text is None:
            return None
        number = id_of(text.strip())
        read = cutoff_ms if name == "older_than" else moment_ms
        return read(text if number is None else number, name, self.time_zone)

    def no_snapshot(self, table: Table, which: str) -> SnapshotNotFoundError:
        """The error for a table without a snapshot such as `committed at or before 5`; it names those there are."""
        from paimon_spark.metadata.snapshots import alive_range

        return SnapshotNotFoundError(
            f"{self.caller}: {table.handle.describe()} has no snapshot {which}; {alive_range(table.handle)}",
            table=table.name,
        )


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        help: what it does, a phrase in the imperative without a full stop.
        run: does it, and returns a result of the API.
        arguments: in the order of a CALL's positional arguments; the table is not among them.
        details: more help, whole sentences.
        procedure: name in a CALL; empty for a command alone.
        result: columns that the procedure returns, as DDL.
        rows: result → rows of the procedure.
        is_own: whether Paimon has no such procedure.
        instead: for a procedure or command that is refused: what to do instead.
        as_paimon: values of arguments that are not given, where the procedure and the actions of other engines differ
            from the command.
        command: `noun verb`, or a single word; empty for a procedure alone.
        actions: actions of other engines that are this command, besides the name of the procedure.
        synonyms: other names of the command that no other engine has.
        is_action: whether the command exists for other engines' users only; listed after the others.
        show: result → what the command prints; None prints the rows.
        question: what a DELETE command asks to confirm; None or a None result: nothing to confirm.
        searches: whether it looks for what to delete; where the result of a dry run is an empty one, it asks nothing.
    """

    help: str
    run: Callable[[Request], Any]
    arguments: tuple[Argument, ...] = ()
    effect: Effect = Effect.READ
    subject: Subject = Subject.TABLE
    details: str = ""
    procedure: str = ""
    result: str = DONE
    rows: Callable[[Request, Any], Rows] = lambda request, result: [(True,)]
    is_own: bool = False
    instead: str = ""
    as_paimon: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    actions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    is_action: bool = False
    show: Callable[[Request, Any], Answer | None] | None = None
    question: Callable[[Request], str | None] | None = None
    searches: bool = False

    def for_paimon(self) -> Operation:
        """The operation as the procedure and the actions of other engines have it."""
        changed = self.as_paimon
        arguments = tuple(replace(a, default=changed[a.name]) if a.name in changed else a for a in self.arguments)
        return replace(self, arguments=arguments, as_paimon={})

    @property
    def noun(self) -> str:
        """The first word of the command."""
        return self.command.partition(" ")[0]

    @property
    def verb(self) -> str:
        """The second word of the command; empty without one."""
        return self.command.partition(" ")[2]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the command."""
        return (*self.action_names, *self.synonyms)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the command as an action: the name of the procedure with hyphens, and actions of other engines."""
        of_procedure = self.procedure.replace("_", "-")
        return (*([of_procedure] if of_procedure not in ("", self.command) else []), *self.actions)

    @property
    def defaults(self) -> dict[str, Any]:
        """Values of the arguments that are not given."""
        every = (*self.parameters, *self.positionals, *self.options)
        return {a.name: [] if a.repeated else a.default for a in every}

    @property
    def sentence(self) -> str:
        """The help as a sentence."""
        return f"{self.help[0].upper()}{self.help[1:]}."

    @property
    def parameters(self) -> tuple[Argument, ...]:
        """Arguments of the procedure, in order; every one that deletes has a dry run."""
        table = (TABLE,) if self.subject is Subject.TABLE else ()
        own = tuple(a for a in self.arguments if a.style is not Style.COMMAND)
        lacks_dry_run = self.effect is Effect.DELETE and DRY_RUN.name not in (a.name for a in own)
        return (*table, *own, *((DRY_RUN,) if lacks_dry_run else ()))

    @property
    def describes_dry_run(self) -> bool:
        """Whether a dry run of the procedure returns what would be done as text, in a column of its own."""
        return DRY_RUN in self.parameters and DRY_RUN not in self.arguments

    @property
    def positionals(self) -> tuple[Argument, ...]:
        """Arguments that the command takes by position, in order."""
        table = (TABLE,) if self.subject is Subject.TABLE else ()
        return (*table, *(a for a in self.arguments if a.positional and a.style is not Style.CALL))

    @property
    def own_options(self) -> tuple[Argument, ...]:
        """Options of this command alone."""
        own = tuple(a for a in self.arguments if not a.positional and a.style is not Style.CALL)
        return own + (DELETE_OPTIONS if self.effect is Effect.DELETE else ())

    @property
    def shared_options(self) -> tuple[Argument, ...]:
        """Options that commands of this subject share."""
        of_table = TABLE_OPTIONS if self.subject is Subject.TABLE else ()
        of_store = STORE_OPTIONS if self.subject is not Subject.NOTHING else ()
        taken = {a.flag for a in self.arguments if a.style is not Style.CALL}
        return tuple(a for a in (*of_table, *of_store, *OUTPUT_OPTIONS) if a.flag not in taken)

    @property
    def options(self) -> tuple[Argument, ...]:
        """All options of the command."""
        return (*self.own_options, *self.shared_options)

    def signature(self, name: str) -> str:
        """The procedure as messages show it: `sys.create_tag(table STRING, tag STRING, [snapshot BIGINT], …)`."""
        shown = [(f"{p.name} {p.type.value}", p.required) for p in self.parameters]
        return f"sys.{name}({', '.join(text if required else f'[{text}]' for text, required in shown)})"


TABLE = Argument(
    "table",
    "db.t, a path or a URL; `$branch_<name>` may follow",
    required=True,
    positional=True,
    metavar="TABLE",
)
DRY_RUN = Argument(
    "dry_run",
    "change nothing, and return what would be done, with a column would_do of text",
    Type.BOOLEAN,
    default=False,
    style=Style.CALL,
    is_own=True,
)
OPTIONS = Argument("options", "table options of this call, as `key=value,key=value`", style=Style.CALL)
TABLE_OPTIONS = (
    Argument("on_branch", "branch of the table", option="branch", spellings=("-b",)),
    Argument("database", "database of --table, where the table is named as in other engines' actions"),
    Argument("path", "path or URL of the table, instead of its name"),
)
STORE_OPTIONS = (
    Argument(
        "warehouse",
        "path or URL of the warehouse",
        otherwise="PAIMON_WAREHOUSE, else the configuration file",
        spellings=("-w",),
    ),
    Argument(
        "option",
        "option of the file system (fs.*, s3.*) or of the table; may be repeated",
        repeated=True,
        parse=key_value,
        metavar="KEY=VALUE",
        spellings=("-o", "--catalog-conf", "--table-conf"),
    ),
)
DELETE_OPTIONS = (
    command_flag("dry_run", "print what would be done, and change nothing"),
    command_flag("yes", "do not ask for confirmation", "-y"),
)
OUTPUT_OPTIONS = (
    command_flag("json", "print JSON"),
    command_flag("quiet", "print the result only, without progress and warnings", "-q"),
    command_flag("verbose", "print log messages, and the traceback of an error", "-v"),
    command_flag("help", "print this help", "-h"),
)
