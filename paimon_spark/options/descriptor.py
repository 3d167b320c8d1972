"""Option descriptors, the text forms they parse, and option text in force for a read.

Source: Java `options/ConfigOption`, `options/MemorySize`, `utils/TimeUtils` for durations and sizes.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.foreign.options import instead_of_option
from paimon_spark.redaction import shown_option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    G = TypeVar("G", bound=DataclassInstance)

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: its key, how its text is read, its default and a sentence for the reference.

    Attributes:
        fallbacks: older keys read when `key` is absent, first match wins.
    """

    key: str
    parse: Callable[[str], T]
    default: T
    doc: str
    fallbacks: tuple[str, ...] = ()

    def get(self, options: Mapping[str, str]) -> T:
        """The value in `options`, or the default. Raises InvalidOptionError: the text is not of the type."""
        for key in (self.key, *self.fallbacks):
            text = options.get(key)
            if text is not None:
                try:
                    return self.parse(text)
                except ValueError as e:
                    shown = shown_option(key, text)
                    raise InvalidOptionError(f"option {key} = {shown!r}: {e}", option=key, value=shown) from e
        return self.default

    def is_set(self, options: Mapping[str, str]) -> bool:
        return any(k in options for k in (self.key, *self.fallbacks))


def option(key: str, parse: Callable[[str], T], default: T, doc: str, fallbacks: tuple[str, ...] = ()) -> T:
    """A field of a group, with the descriptor of the option that `parse_group` fills it from."""
    return field_of(Option(key, parse, default, doc, fallbacks))


def field_of(described: Option[T]) -> T:
    """A field of a group that `parse_group` fills from an option that others name too."""
    made: T = field(default_factory=lambda: described.default, metadata={"option": described})
    return made


@cache
def options_of(group: type[DataclassInstance]) -> dict[str, Option[Any]]:
    """The options that the fields of a group are filled from, by field."""
    return {f.name: f.metadata["option"] for f in fields(group) if "option" in f.metadata}


def parse_group(group: type[G], options: Mapping[str, str], **derived: Any) -> G:
    """Fill a group from option text; `derived` are fields computed from several options. Raises InvalidOptionError."""
    read = {name: found.get(options) for name, found in options_of(group).items() if name not in derived}
    return group(**read, **derived)


def boolean(text: str) -> bool:
    """`true` or `false`, in any case."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(f"expected true or false{did_you_mean(text.strip().lower(), ('true', 'false'))}")


def integer(text: str) -> int:
    """A whole number."""
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("expected a whole number") from None


def at_least_one(parse: Callable[[str], int]) -> Callable[[str], int]:
    """A parser of numbers, sizes or durations that refuses those below 1."""

    @wraps(parse)  # the options reference names the kind of value by it
    def checked(text: str) -> int:
        value = parse(text)
        if value < 1:
            raise ValueError("expected at least 1")
        return value

    return checked


def fraction(text: str) -> float:
    """A number, with or without decimals."""
    try:
        number = float(text.strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("expected a number")
    return number


def string(text: str) -> str:
    """The text as it is."""
    return text


def trimmed(text: str) -> str:
    """The text without blanks around it."""
    return text.strip()


def lower(text: str) -> str:
    """The text in lower case, without blanks around it."""
    return text.strip().lower()


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list of names, trimmed, empty ones dropped."""
    return tuple(n for n in (p.strip() for p in text.split(",")) if n)


def enum_of(cls: type[E]) -> Callable[[str], E]:
    """A parser of the values of `cls`, case-insensitive, `_` the same as `-`."""
    return one_of({str(member.value): member for member in cls})


def one_of(values: Mapping[str, T]) -> Callable[[str], T]:
    """A parser of the names of `values`, as `enum_of`."""
    by_word = {name.lower().replace("_", "-"): value for name, value in values.items()}

    def parse(text: str) -> T:
        try:
            return by_word[text.strip().lower().replace("_", "-")]
        except KeyError:
            raise ValueError("expected one of " + ", ".join(values)) from None

    return parse


_SIZE_UNITS: Final = {
    "": 1, "b": 1, "bytes": 1,
    "k": 2**10, "kb": 2**10, "kibibytes": 2**10,
    "m": 2**20, "mb": 2**20, "mebibytes": 2**20,
    "g": 2**30, "gb": 2**30, "gibibytes": 2**30,
    "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip
_DURATION_UNITS_MS: Final = {
    "d": 86400000, "day": 86400000, "days": 86400000,
    "h": 3600000, "hour": 3600000, "hours": 3600000,
    "m": 60000, "min": 60000, "minute": 60000, "minutes": 60000,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
}  # fmt: skip
_QUANTITY: Final = re.compile(r"^\s*(\d+)\s*([a-zA-Z]*)\s*$")


def _quantity(text: str, units: Mapping[str, int], what: str) -> int:
    m = _QUANTITY.match(text)
    if m is None or m[2].lower() not in units:
        raise ValueError(f"expected {what}")
    found = int(m[1]) * units[m[2].lower()]
    if found >= 2**63:
        raise ValueError(f"it is too large; expected {what}")
    return found


def spelt(options: Mapping[str, str], by_lower: Mapping[str, str]) -> dict[str, str]:
    """Spell keys as `by_lower` maps their lower-case form; other keys stay.

    Raises InvalidOptionError: one option has two values, in different spellings.
    """
    out: dict[str, str] = {}
    for key, value in options.items():
        name = by_lower.get(key.lower(), key)
        if name in out and out[name] != value:
            one, other = shown_option(name, out[name]), shown_option(name, value)
            raise InvalidOptionError(f"option {name} is given twice: {one!r} and {other!r}", option=name)
        out[name] = value
    return out


COLUMN_PREFIX: Final = "fields."
"""How keys of options of one column begin."""


def texts_by_column(raw: Mapping[str, str], suffix: str) -> dict[str, str]:
    """The text of the options `fields.<column><suffix>`, by column."""
    return {
        key[len(COLUMN_PREFIX) : -len(suffix)]: text
        for key, text in raw.items()
        if key.startswith(COLUMN_PREFIX) and key.endswith(suffix)
    }


def memory_size(text: str) -> int:
    """Bytes: `128 mb`, `1g`, `4096`. Units are powers of 1024."""
    return _quantity(text, _SIZE_UNITS, "a size such as 128 mb")


def duration_ms(text: str) -> int:
    """Milliseconds: `1 h`, `30 min`, `10s`, `500 ms`; a bare number is milliseconds."""
    return _quantity(text, _DURATION_UNITS_MS, "a duration such as 1 h or 30 min")


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """The most similar of `candidates` besides `name` itself, best first, for "did you mean"."""
    pool = {c.lower(): c for c in candidates if c != name}
    return [pool[m] for m in difflib.get_close_matches(name.lower(), pool, n=count, cutoff=0.6)]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x' or 'y'?`, or nothing when no candidate is near."""
    close = nearest(name, candidates)
    return f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""


def check_choice(argument: str, value: object, choices: Sequence[str]) -> None:
    """Check that an argument is one of `choices`. Raises InvalidInputError, which offers the nearest."""
    if value in choices:
        return
    *others, last = map(repr, choices)
    near = did_you_mean(value, choices) if isinstance(value, str) else ""
    raise InvalidInputError(f"{argument}={value!r}: expected {', '.join(others)} or {last}{near}", argument=argument)


def is_one_edit_away(one: str, other: str, *, counts_digits: bool = False) -> bool:
    """Whether two names differ by case, `_` for `-`, or one letter: changed, missing, added or swapped with the next.

    Names with different digits, such as `orders_1` and `orders_2`, are different on purpose, unless `counts_digits`.
    """
    a, b = (name.lower().replace("_", "-") for name in (one, other))
    if len(a) > len(b):
        a, b = b, a
    if a == b or len(b) - len(a) > 1:
        return a == b and one != other
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    rest_a, rest_b = a[at:], b[at:]
    if len(a) < len(b):
        return rest_a == rest_b[1:] and (counts_digits or not rest_b[0].isdigit())
    is_changed = rest_a[1:] == rest_b[1:]
    is_swapped = rest_a[:2] == rest_b[1::-1] and rest_a[2:] == rest_b[2:]
    has_digit = rest_a[0].isdigit() or rest_b[0].isdigit()
    return (is_changed or is_swapped) and (counts_digits or not has_digit)


def unknown_option(key: str, known: Iterable[str], what: str) -> InvalidOptionError:
    """The error for an unknown option, with its equivalent if it is foreign, else with the nearest known names."""
    foreign = instead_of_option(key)
    if foreign is not None:
        return InvalidOptionError(
            f"unknown {what} option {foreign.name!r}, of Iceberg or Delta Lake: {foreign.text}", option=foreign.name
        )
    return InvalidOptionError(f"unknown {what} option {key!r}{did_you_mean(key, known)}", option=key)


@dataclass(frozen=True, slots=True)
class InForce:
    """Option text of a read over what the table stores.

    Attributes:
        stored: keys whose values the table stores.
    """

    options: Mapping[str, str]
    stored: frozenset[str]

    def get(self, wanted: Option[T]) -> T:
        """The value, or the default. Raises InvalidOptionError, which says so where the table stores the text."""
        try:
            return wanted.get(self.options)
        except InvalidOptionError as e:
            key = e.context.get("option")
            if key not in self.stored:
                raise
            raise InvalidOptionError(
                f"{e.message}; the table stores this value: give the read another one, or alter the table", **e.context
            ) from e

    def show(self, key: str) -> str:
        """Key and value for messages, with a note where the table stores them."""
        shown = shown_option(key, self.options[key])
        return f"{key} = {shown!r}" + (" (stored in the table)" if key in self.stored else "")

    def found(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in self.options]
