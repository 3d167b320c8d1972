"""Arguments as a call gives them → values by the names of a procedure's parameters, of their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from paimon_spark.errors import InvalidInputError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.sql.procedures.procedure import Arguments, Kind, Parameter, Procedure

_BITS: Final = {Kind.BIGINT: 63, Kind.INT: 31}
_TRUTHS: Final = {"true": True, "false": False}


class Bound(NamedTuple):
    """A call: the form of the procedure that it means, and the values."""

    procedure: Procedure
    arguments: Arguments


def bind(procedure: Procedure, positional: Sequence[object], named: Sequence[tuple[str, object]]) -> Bound:
    """The values of a call.

    Args:
        procedure: which is called.
        positional: values in the order of the parameters; they come first.
        named: names and values.

    Raises:
        InvalidInputError: an argument is unknown, given twice, missing or of another type; shows the signature.
    """
    form = _form(procedure, len(positional), {_key(name) for name, _ in named})
    by_key = {_key(p.name): p for p in form.parameters}
    in_order = _in_order(form)
    if len(positional) > len(in_order):
        raise _wrong(form, f"takes at most {len(in_order)} arguments without names, found {len(positional)}")
    given: list[tuple[Parameter, object]] = list(zip(in_order, positional, strict=False))
    for name, value in named:
        parameter = by_key.get(_key(name))
        if parameter is None:
            raise _wrong(form, f"has no parameter {name!r}{did_you_mean(name, [p.name for p in form.parameters])}")
        if any(p is parameter for p, _ in given):
            raise _wrong(form, f"is given {parameter.name} twice")
        given.append((parameter, value))
    values = {p.name: _value(form, p, value) for p, value in given if value is not None}
    for p in form.parameters:
        if p.required and (p.name not in values or values[p.name] == ""):
            raise _wrong(form, f"needs {p.name}")
    return Bound(form, Arguments(f"sys.{form.name}", values))


def _form(procedure: Procedure, positional: int, named: set[str]) -> Procedure:
    """The first form that has all that is given; else the first one, whose signature messages show."""
    for form in procedure.forms:
        if positional <= len(_in_order(form)) and named <= {_key(p.name) for p in form.parameters}:
            return form
    return procedure


def _in_order(form: Procedure) -> list[Parameter]:
    """What arguments without names are for: not for our own additions, whose places may become Paimon's."""
    return [p for p in form.parameters if not p.is_own]


def _key(name: str) -> str:
    """Names are the same in any case, and with or without underscores: ignoreIfExists is ignore_if_exists."""
    return name.replace("_", "").lower()


def _value(form: Procedure, parameter: Parameter, value: object) -> Any:
    found: Any = None
    match parameter.kind:
        case Kind.STRING:
            found = _text(value)
        case Kind.BOOLEAN:
            found = value if isinstance(value, bool) else _TRUTHS.get(str(value).strip().lower())
        case Kind.MAP:
            found = {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else None
        case _:
            found = _whole(value, _BITS[parameter.kind])
    if found is None:
        raise _wrong(form, f"takes {parameter.name} as {parameter.type}, found {value!r}")
    return found


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


def _wrong(form: Procedure, what: str) -> InvalidInputError:
    return InvalidInputError(f"sys.{form.name} {what}; it is {form.signature}", procedure=form.name)
