"""Options of a catalog: how to reach its file system, and defaults of the tables that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TABLE_DEFAULT: Final = "table-default."
"""How options begin that are for tables to be made."""


def table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Options of the tables that a catalog with these options makes."""
    return {k.removeprefix(TABLE_DEFAULT): v for k, v in options.items() if k.startswith(TABLE_DEFAULT)}


def without_table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Options that hold of the tables that are there."""
    return {k: v for k, v in options.items() if not k.startswith(TABLE_DEFAULT)}
