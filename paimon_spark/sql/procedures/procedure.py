"""Procedures as data: name, parameters, columns of the result, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from paimon_spark.errors import InvalidInputError, InvalidOptionError

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.sql.call_context import CallContext

Rows: TypeAlias = Iterable[Sequence[Any]]

DONE = "result BOOLEAN"
"""The result of procedures that say no more than that they did it."""


class Kind(str, Enum):
    """What an argument may be, by Spark's name of the type."""

    STRING = "STRING"
    BIGINT = "BIGINT"
    INT = "INT"
    BOOLEAN = "BOOLEAN"
    MAP = "MAP<STRING, STRING>"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        name: as Paimon's Spark connector has it. Calls may write it in any case, and with or without underscores.
        kind: type of its values.
        required: whether a call must give it, and not null.
        doc: one sentence.
        default: what holds where it is not given, for documentation.
        is_own: whether it is this package's, and Paimon's procedure lacks it. It is given by name only.
    """

    name: str
    kind: Kind = Kind.STRING
    required: bool = False
    doc: str = ""
    default: str = ""
    is_own: bool = False

    @property
    def type(self) -> str:
        """Spark's name of the type."""
        return self.kind.value


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure, which `CALL sys.<name>(…)` runs.

    Attributes:
        name: in lower case.
        doc: what it does, in a sentence or two.
        parameters: in the order of arguments without names.
        result: columns of the rows it returns, as DDL text.
        run: does it, and gives the rows.
        needs_spark: whether it works only in a Spark session.
        instead: for one of Paimon's that cannot be done here: what to do. Empty for all others.
        is_own: whether it is this package's, and Paimon has none of this name.
        other: another form of the same name, for calls that give arguments which only it has.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    result: str
    run: Callable[[CallContext, Arguments], Rows]
    needs_spark: bool = False
    instead: str = ""
    is_own: bool = False
    other: Procedure | None = None

    @property
    def is_supported(self) -> bool:
        """Whether it can be done here."""
        return not self.instead

    @property
    def signature(self) -> str:
        """As messages show it: `sys.create_tag(table STRING, tag STRING, [snapshot BIGINT], …)`."""
        shown = (f"{p.name} {p.type}" for p in self.parameters)
        texts = (text if p.required else f"[{text}]" for p, text in zip(self.parameters, shown, strict=True))
        return f"sys.{self.name}({', '.join(texts)})"

    @property
    def forms(self) -> tuple[Procedure, ...]:
        """This form, and the other one where there is one."""
        return (self,) if self.other is None else (self, self.other)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values of one call, by the names of the parameters; what was not given, or null, is missing.

    Attributes:
        caller: the procedure as messages call it: `sys.create_tag`.
    """

    caller: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A text that must be given."""
        return str(self.values[name])

    def text_or_none(self, name: str) -> str | None:
        """A text; None when it is not given, or blank."""
        value = self.values.get(name)
        return None if value is None or not str(value).strip() else str(value)

    def number(self, name: str) -> int:
        """A whole number that must be given."""
        return int(self.values[name])

    def number_or_none(self, name: str) -> int | None:
        """A whole number; None when it is not given."""
        value = self.values.get(name)
        return None if value is None else int(value)

    def truth(self, name: str, default: bool = False) -> bool:
        """A truth value; `default` when it is not given."""
        value = self.values.get(name)
        return default if value is None else bool(value)

    def moment(self, name: str) -> int | str | None:
        """A moment: text, or epoch milliseconds when only digits are given; None when it is not given."""
        text = self.text_or_none(name)
        return int(text) if text is not None and text.strip().isdecimal() else text

    def options(self, name: str = "options") -> dict[str, str]:
        """Table options written `key=value,key=value`. Raises InvalidOptionError."""
        text = self.text_or_none(name)
        out: dict[str, str] = {}
        for pair in () if text is None else text.split(","):
            key, sign, value = pair.partition("=")
            if not sign or not key.strip():
                raise InvalidOptionError(
                    f"{self.caller}: {name} = {text!r}: expected key=value pairs with commas between", option=name
                )
            out[key.strip()] = value.strip()
        return out

    def table(self, place: CallContext, options: Mapping[str, str] | None = None) -> Table:
        """The table that argument `table` names, with options of this call. Raises as `CallContext.table`."""
        return place.table(self.text("table"), self.caller, options)

    def refuse_two(self, *names: str) -> None:
        """Check that at most one of these is given. Raises InvalidInputError."""
        given = [n for n in names if self.text_or_none(n) is not None]
        if len(given) > 1:
            raise InvalidInputError(f"{self.caller}: {' and '.join(given)} cannot be used together; give one of them")


TABLE = Parameter("table", required=True, doc="Name of the table, `db.t`, also with `$branch_<name>`.")
OPTIONS = Parameter("options", doc="Table options of this call, as `key=value,key=value`.")
