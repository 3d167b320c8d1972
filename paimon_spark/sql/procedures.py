"""CALL: read the statement, bind its arguments to a procedure, and run it; SHOW PROCEDURES.

Binding and running work without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.advice import Entrance, reworded
from paimon_spark.errors import InvalidInputError, InvalidOptionError, ProcedureNotFoundError, SqlSyntaxError
from paimon_spark.foreign.procedures import PROCEDURES as ICEBERG
from paimon_spark.foreign.procedures import arguments_by_name, instead_of_call, unknown_arguments
from paimon_spark.operations import PROCEDURES
from paimon_spark.operations.operation import Argument, Operation, Request, Type
from paimon_spark.operations.refused import refusal
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.show import ShowProcedures
from paimon_spark.sql.literals import evaluate
from paimon_spark.sql.names import CallContext, knows_catalog, unknown_catalog
from paimon_spark.sql.statement import Outcome, Result, Statement

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.sql.session import Session

_DATABASE: Final = "sys"
_OF_ICEBERG: Final = "system"
"""Iceberg's database of procedures."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LISTED: Final = (
    "catalog STRING NOT NULL, namespace ARRAY<STRING> NOT NULL, schema STRING, procedure_name STRING NOT NULL"
)
_BITS: Final = {Type.BIGINT: 63, Type.INT: 31}
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """`CALL [paimon.]sys.<name>(<arguments>)`: texts of arguments without names, then names and texts of the others."""

    place: tuple[str, ...]
    name: str
    positional: tuple[str, ...]
    named: tuple[tuple[str, str], ...]


def read_call(cursor: Cursor) -> Call | None:
    """Read a call of one of Paimon's procedures; None for one of another catalog. Raises SqlSyntaxError."""
    *place, name = cursor.name("the name of a procedure")
    if not place and name.lower() in PROCEDURES:
        raise SqlSyntaxError(f"procedures are in the database sys: write CALL sys.{name}(…)", sql=cursor.sql)
    if len(place) > 2 or "".join(place[-1:]).lower() not in (_DATABASE, _OF_ICEBERG):
        return None
    positional: list[str] = []
    named: list[tuple[str, str]] = []

    def read() -> None:
        argument = _read_argument_name(cursor)
        if argument is None and named:
            cursor.fail("name => value, as arguments without names come first")
        text = cursor.until(",") or cursor.fail("an argument" if argument is None else "a value")
        if argument is None:
            positional.append(text)
        else:
            named.append((argument, text))

    if not cursor.take("(", ")"):
        cursor.parenthesised_list(read)
    return Call(cursor.sql, tuple(place), name, tuple(positional), tuple(named))


def _read_argument_name(cursor: Cursor) -> str | None:
    """Read `name =>`; None, and nothing read, when no name comes next."""
    following = cursor.tokens[cursor.index + 1 : cursor.index + 2]
    if not following or following[0].keyword != "=>":
        return None
    name = cursor.identifier("the name of an argument")
    cursor.expect("=>")
    return name


def run_call(session: Session, statement: Call) -> Result:
    """Run the procedure, and return its rows; one of another catalog is Spark's. Raises as `call`.

    ProcedureNotFoundError: it is one of Iceberg's, or of a catalog that is not there.
    """
    if not is_of_catalog(session, statement):
        if lacks_catalog(session, statement):
            place = ".".join((*statement.place, statement.name))
            raise ProcedureNotFoundError(unknown_catalog(session, (*statement.place, statement.name)), procedure=place)
        return Outcome.RUN_BY_SPARK
    _refuse_icebergs(statement)
    find_procedure(statement.name)  # an unknown name is reported before the arguments are evaluated
    values = evaluate(session, [*statement.positional, *(text for _, text in statement.named)])
    count = len(statement.positional)
    names = [name for name, _ in statement.named]
    returned = call(session, statement.name, values[:count], list(zip(names, values[count:], strict=True)))
    return session.rows(returned.columns, returned.rows)


def show_procedures(session: Session, statement: ShowProcedures) -> Result:
    """The procedures that CALL runs, in the columns of Spark's `ShowProceduresCommand`.

    Those of a database other than `sys` are Spark's.
    """
    database = tuple(p.lower() for p in statement.database)
    if database not in _places(session) and (database or not session.is_current):
        return Outcome.RUN_BY_SPARK
    names = sorted(name for name, forms in PROCEDURES.items() if not forms[0].instead)
    return session.rows(_LISTED, [(session.catalog_name, [_DATABASE], _DATABASE, name) for name in names])


def _places(session: Session) -> tuple[tuple[str, ...], ...]:
    """Places that SHOW PROCEDURES may name: the database of procedures, and the catalog."""
    name = session.catalog_name.lower()
    qualified = (name, _DATABASE), (name,)
    return ((_DATABASE,), *qualified) if session.is_current else qualified


def is_of_catalog(session: Session, statement: Call) -> bool:
    """Whether a statement calls a procedure of the session's catalog."""
    place = statement.place
    return place[0].lower() == session.catalog_name.lower() if len(place) > 1 else session.is_current


def lacks_catalog(session: Session, statement: Call) -> bool:
    """Whether a statement calls a procedure of a catalog that the Spark session does not have."""
    return len(statement.place) > 1 and not knows_catalog(session, statement.place[0])


def _refuse_icebergs(statement: Call) -> None:
    """Refuse a call as Iceberg has it. Raises ProcedureNotFoundError, which says what to call instead."""
    name, is_of_system = statement.name.lower(), statement.place[-1].lower() == _OF_ICEBERG
    called = f"{statement.place[-1]}.{statement.name}"
    if name in ICEBERG and (is_of_system or name not in PROCEDURES or _has_other_arguments(statement)):
        arguments = arguments_by_name(name, statement.positional, dict(statement.named))
        is_other = name in PROCEDURES and not is_of_system
        what = f"{called} does not take the arguments of Iceberg" if is_other else f"there is no procedure {called}"
        what = f"{what}{_unknown(statement)}"
        end = "" if what.endswith("?") else "."
        raise ProcedureNotFoundError(f"{what}{end} {instead_of_call(name, arguments)}", procedure=statement.name)
    if is_of_system:
        forms = find_procedure(statement.name)
        raise ProcedureNotFoundError(
            f"there is no procedure {called}: procedures are in the database {_DATABASE}. Use "
            f"CALL sys.{name}(…), which is {forms[0].signature(name)}",
            procedure=statement.name,
        )


def _unknown(statement: Call) -> str:
    """Sentence on arguments that Iceberg's procedure does not take either; empty without any."""
    name, known = statement.name.lower(), ICEBERG[statement.name.lower()].parameters
    if len(statement.positional) > len(known):
        return f", and Iceberg's takes at most {len(known)} arguments, found {len(statement.positional)}"
    unknown = unknown_arguments(name, dict(statement.named))
    if not unknown:
        return ""
    near = did_you_mean(unknown[0], known)
    return f", and Iceberg's has no parameter {' and '.join(map(repr, unknown))}{near}"


def _has_other_arguments(statement: Call) -> bool:
    """Whether a call of a procedure that Iceberg has too is given arguments that only Iceberg's takes."""
    name, given = statement.name.lower(), {_key(text) for text, _ in statement.named}
    form = _form(PROCEDURES[name], len(statement.positional), given)
    others = given - {_key(p.name) for p in form.parameters}
    is_longer = len(statement.positional) > len(_in_order(form))
    return (is_longer or bool(others)) and others <= {_key(p) for p in ICEBERG[name].parameters}


class Returned(NamedTuple):
    """Result of a procedure; `columns` is DDL."""

    columns: str
    rows: tuple[tuple[Any, ...], ...]


def find_procedure(name: str) -> tuple[Operation, ...]:
    """The forms of the procedure called `name`, in any case.

    Raises ProcedureNotFoundError: there is none; the nearest names are offered.
    """
    found = PROCEDURES.get(name.lower())
    if found is None:
        near = did_you_mean(name.lower(), (*PROCEDURES, *ICEBERG))
        raise ProcedureNotFoundError(
            f"there is no procedure sys.{name}{near + ' ' if near else '; '}SHOW PROCEDURES lists them all",
            procedure=name,
        )
    return found


def call(
    where: Session | Catalog | CallContext,
    name: str,
    positional: Sequence[object] = (),
    named: Mapping[str, object] | Sequence[tuple[str, object]] = (),
) -> Returned:
    """Call a procedure, whose name is in any case, on tables of a catalog or session.

    Names of arguments may be in any case, with and without underscores; those without names are in the order of the
    parameters. Raises as `find_procedure` and as the method of Table or Catalog that does it.

    Raises:
        InvalidInputError: the arguments are wrong; the message has the signature.
        UnsupportedFeatureError: it cannot be done here; the message says what to do instead.
    """
    forms, name = find_procedure(name), name.lower()
    if forms[0].instead:
        raise refusal(f"sys.{name}", forms[0].instead)
    form, values = _bind(name, forms, positional, list(named.items() if isinstance(named, Mapping) else named))
    request = _CallRequest(CallContext.of(where), values, f"sys.{name}")
    taken = {p.name: request.moment(p.name) for p in form.parameters if p.is_moment and request[p.name] is not None}
    request = _CallRequest(request.place, {**values, **{k: str(ms) for k, ms in taken.items()}}, request.caller)
    moments = tuple(_EPOCH + timedelta(milliseconds=ms or 0) for ms in taken.values())
    result = form.run(request)
    rows = form.rows(request, result)
    planned = (_plan_text(form, request, result),) if request.dry_run and form.describes_dry_run else ()
    columns = ", ".join(
        [form.result, *(f"{moment} TIMESTAMP" for moment in taken), *("would_do STRING" for _ in planned)]
    )
    return Returned(columns, tuple((*row, *moments, *planned) for row in rows))


def _plan_text(form: Operation, request: Request, result: object) -> str:
    """Description of what a dry run would do, as its command prints it, in one line."""
    answer = None if form.show is None else form.show(request, result)
    return "nothing to do" if answer is None else "; ".join(line.strip() for line in answer.text(None))


class _CallRequest(Request):
    """A call of a procedure: tables are found as a session, or a catalog alone, finds them."""

    is_call = True

    def __init__(self, place: CallContext, values: Mapping[str, Any], caller: str) -> None:
        super().__init__(values, caller, dry_run=bool(values.get("dry_run")))
        self.place = place

    def catalog(self, *, may_create: bool = False) -> Catalog:
        return self.place.catalog

    def table(self, text: str | None = None) -> Table:
        return self.place.table(self["table"] if text is None else text, self.caller, self._options())

    def table_name(self, text: str) -> str:
        return str(self.place.table_name(text.strip(), self.caller))

    @property
    def table_text(self) -> str:
        return str(self["table"])

    @property
    def time_zone(self) -> str | None:
        return self._options().get(TIME_ZONE.key) or self.place.time_zone

    def reworded(self, message: str) -> str:
        return reworded(message, Entrance.CALL)

    def _options(self) -> dict[str, str]:
        """Argument `options`, which is written `key=value,key=value`."""
        text, out = self["options"], dict[str, str]()
        for pair in () if text is None else text.split(","):
            key, sign, value = pair.partition("=")
            if not sign or not key.strip():
                raise InvalidOptionError(
                    f"{self.caller}: options = {text!r}: expected key=value pairs with commas between",
                    option="options",
                )
            out[key.strip()] = value.strip()
        return out


def _bind(
    name: str, forms: Sequence[Operation], positional: Sequence[object], named: Sequence[tuple[str, object]]
) -> tuple[Operation, dict[str, Any]]:
    """The form of the procedure that is called, and the values of its arguments.

    Raises InvalidInputError: an argument is unknown, given twice, missing or of another type.
    """
    form = _form(forms, len(positional), {_key(name) for name, _ in named})
    by_key = {_key(p.name): p for p in form.parameters}
    in_order = _in_order(form)

    def wrong(what: str) -> InvalidInputError:
        return InvalidInputError(f"sys.{name} {what}; it is {form.signature(name)}", procedure=name)

    if len(positional) > len(in_order):
        raise wrong(f"takes at most {len(in_order)} arguments without names, found {len(positional)}")
    given: list[tuple[Argument, object]] = list(zip(in_order, positional, strict=False))
    for text, value in named:
        parameter = by_key.get(_key(text))
        if parameter is None:
            raise wrong(f"has no parameter {text!r}{did_you_mean(text, [p.name for p in form.parameters])}")
        if any(p is parameter for p, _ in given):
            raise wrong(f"is given {parameter.name} twice")
        given.append((parameter, value))
    values = form.for_paimon().defaults
    for p, value in given:
        converted = None if value is None else _converted(p.type, value)
        if value is not None and converted is None:
            raise wrong(f"takes {p.name} as {p.type.value}, found {value!r}")
        if converted is not None and (p.required or str(converted).strip()):  # a blank text is as good as none
            values[p.name] = converted
    for p in form.parameters:
        if p.required and values[p.name] in (None, "", []):
            raise wrong(f"needs {p.name}")
    return form, values


def _form(forms: Sequence[Operation], positional: int, named: set[str]) -> Operation:
    """The first form that has all that is given; else the first one, whose signature messages show."""
    for form in forms:
        if positional <= len(_in_order(form)) and named <= {_key(p.name) for p in form.parameters}:
            return form
    return forms[0]


def _in_order(form: Operation) -> list[Argument]:
    """Parameters of arguments without names: only Paimon's, as it may use the places of additions."""
    return [p for p in form.parameters if not p.is_own]


def _key(name: str) -> str:
    """Names are the same in any case, and with or without underscores: ignoreIfExists is ignore_if_exists."""
    return name.replace("_", "").lower()


def _converted(kind: Type, value: object) -> Any:
    """The value as this type; None when it is of another."""
    match kind:
        case Type.STRING:
            return _text(value)
        case Type.BOOLEAN:
            return value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().lower())
        case Type.MAP:
            return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else None
        case _:
            return _whole(value, _BITS[kind])


def _text(value: object) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float() | Decimal() | date():
            return str(value)
    return None


def _whole(value: object, bits: int) -> int | None:
    if isinstance(value, str | Decimal):
        try:
            number = Decimal(value)
        except ArithmeticError:
            return None
        value = int(number) if number.is_finite() and number == number.to_integral_value() else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << bits) <= value < 1 << bits else None
