"""What a command is: names, arguments, help and the function that runs it. Values only; the rest is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_spark.cli.answer import Answer
    from paimon_spark.cli.call import Call


class Kind(str, Enum):
    """What a command does: READ changes nothing; DELETE takes something away, and asks first."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"


class Scope(str, Enum):
    """What a command is about: a TABLE named as its first word, the WAREHOUSE, or NOTHING that is stored."""

    TABLE = "table"
    WAREHOUSE = "warehouse"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. A positional one may be given as `--<name>` too, as other engines' actions do.

    Attributes:
        name: with underscores, as the command's function asks for it.
        help: a sentence without a full stop.
        positional: whether it is a word by its place.
        required: whether it must be given; positional ones that need not be come last.
        spellings: other names of the option, such as `-n` or `--branch-name`.
        parse: text → value; raises ValueError for a text that is none.
        metavar: what help calls the value; default is the name.
        is_flag: whether it takes no value.
        repeated: whether it may be given several times; the value is a list then. A repeated positional one is last.
        default: when it is not given.
        choices: the only values.
    """

    name: str
    help: str
    positional: bool = False
    required: bool = False
    spellings: tuple[str, ...] = ()
    parse: Callable[[str], Any] = str
    metavar: str | None = None
    is_flag: bool = False
    repeated: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """`--<name>`."""
        return "--" + self.name.replace("_", "-")

    @property
    def shown(self) -> str:
        """What help calls the value."""
        return self.metavar or self.name.upper().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: `paimon-spark <noun> <verb>`, or `paimon-spark <noun>` where there is no verb.

    Attributes:
        help: what it does, one sentence; the first words of the manual.
        run: does it.
        arguments: its own; those that all have, and those of its scope and kind, come to them.
        aliases: other names: the actions of the proposals and of other engines, with hyphens.
        details: more for its own help.
        is_action: an action of another engine; listed after the others.
    """

    noun: str
    verb: str | None
    help: str
    run: Callable[[Call], Answer]
    arguments: tuple[Argument, ...] = ()
    kind: Kind = Kind.READ
    scope: Scope = Scope.TABLE
    aliases: tuple[str, ...] = ()
    details: str = ""
    is_action: bool = False

    @property
    def name(self) -> str:
        """Its words: `branch create`."""
        return self.noun if self.verb is None else f"{self.noun} {self.verb}"

    @property
    def positionals(self) -> Sequence[Argument]:
        """Arguments by place, in order; the table is one."""
        own = tuple(a for a in self.arguments if a.positional)
        return (TABLE_ARGUMENT, *own) if self.scope is Scope.TABLE else own

    @property
    def options(self) -> Sequence[Argument]:
        """All options: its own, those of its scope and kind, and those of all commands."""
        own = tuple(a for a in self.arguments if not a.positional)
        of_table = TABLE_OPTIONS if self.scope is Scope.TABLE else ()
        of_store = STORE_OPTIONS if self.scope is not Scope.NOTHING else ()
        of_kind = DELETE_OPTIONS if self.kind is Kind.DELETE else ()
        names = {a.name for a in own}
        return (*own, *(a for a in (*of_kind, *of_table, *of_store, *OUTPUT_OPTIONS) if a.name not in names))


def flag(name: str, help: str, *spellings: str) -> Argument:
    """An option without a value."""
    return Argument(name, help, is_flag=True, default=False, spellings=spellings)


def key_value(text: str) -> tuple[str, str]:
    """`key=value` as two texts. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError("expected KEY=VALUE")
    return key.strip(), value


TABLE_ARGUMENT = Argument(
    "table", "table: db.t, a path or a URL; $branch_<name> may follow", positional=True, required=True, metavar="TABLE"
)
TABLE_OPTIONS = (
    Argument("branch", "branch of the table", spellings=("-b",)),
    Argument("database", "database of --table, where the table is named as other engines' actions do"),
    Argument("path", "path or URL of the table, instead of its name"),
)
STORE_OPTIONS = (
    Argument("warehouse", "path or URL; else PAIMON_WAREHOUSE or the configuration file says it", spellings=("-w",)),
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
    flag("dry_run", "only say what would go"),
    flag("yes", "do not ask", "-y"),
)
OUTPUT_OPTIONS = (
    flag("json", "print JSON"),
    flag("quiet", "print nothing but what was asked for; no progress", "-q"),
    flag("verbose", "print log messages, and where an error came from", "-v"),
    flag("help", "print this help", "-h"),
)
