"""InForce: options of a read over those that the table stores, and which are which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InForce:
    """Options in force.

    Attributes:
        stored: keys whose values the table stores.
    """

    options: Mapping[str, str]
    stored: frozenset[str]

    def get(self, option: Option[T]) -> T:
        """The value, or the default. Raises InvalidOptionError, which says so where the table stores the text."""
        try:
            return option.get(self.options)
        except InvalidOptionError as e:
            key = e.context.get("option")
            if key not in self.stored:
                raise
            raise InvalidOptionError(
                f"{e.message}; the table stores this value: give the read another one, or alter the table", **e.context
            ) from e

    def show(self, key: str) -> str:
        """Key and value, and whence they come, for messages."""
        return f"{key} = {self.options[key]!r}" + (" (stored in the table)" if key in self.stored else "")

    def found(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in self.options]
