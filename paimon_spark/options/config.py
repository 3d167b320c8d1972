"""Defaults that are not in the call: `PAIMON_WAREHOUSE` and a configuration file.

The file is TOML, `~/.config/paimon-spark/config.toml` or the one that `PAIMON_CONFIG` names:
`warehouse = "s3://lake/wh"` and file system options: `"fs.key" = "…"`, or `[s3]` with `endpoint = "…"`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import unknown_option
from paimon_spark.options.known import is_storage_option

WAREHOUSE_VARIABLE: Final = "PAIMON_WAREHOUSE"
CONFIG_VARIABLE: Final = "PAIMON_CONFIG"


def configured(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`warehouse` and file system options of the environment and the configuration file, in that order.

    Raises:
        InvalidOptionError: the file cannot be read, or holds something else.
    """
    variables = os.environ if environ is None else environ
    named = variables.get(CONFIG_VARIABLE)
    path = named or os.path.join(
        variables.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config"),
        "paimon-spark",
        "config.toml",
    )
    out = dict(_from_file(path, _changed_ns(path, bool(named))))
    if variables.get(WAREHOUSE_VARIABLE):
        out["warehouse"] = variables[WAREHOUSE_VARIABLE]
    return out


def _changed_ns(path: str, must_exist: bool) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError as e:
        if must_exist:
            raise InvalidOptionError(
                f"the configuration file {path} that {CONFIG_VARIABLE} names cannot be read: {e.strerror}",
                path=path,
            ) from e
        return 0


@lru_cache(maxsize=4)
def _from_file(path: str, changed_ns: int) -> Mapping[str, str]:
    if not changed_ns:
        return {}
    try:
        with open(path, "rb") as f:
            tree = _parse_toml(f.read())
    except (OSError, ValueError) as e:
        raise InvalidOptionError(f"the configuration file {path} cannot be read: {e}", path=path) from e
    options = _flat(tree, path)
    for key in options:
        if key != "warehouse" and not is_storage_option(key):
            error = unknown_option(key, ["warehouse", "fs", "s3"], "configuration")
            raise InvalidOptionError(f"{error} in {path}; known are warehouse, fs.* and s3.*", option=key, path=path)
    return options


def _parse_toml(data: bytes) -> dict[str, Any]:
    try:
        import tomllib  # imported here: most sessions have no configuration file
    except ImportError as e:  # Python 3.10
        raise ValueError("reading TOML needs Python 3.11; set PAIMON_WAREHOUSE or give options instead") from e
    return tomllib.loads(data.decode())


def _flat(tree: Mapping[str, Any], path: str, prefix: str = "") -> dict[str, str]:
    """Nested tables joined by dots, values as option text."""
    out: dict[str, str] = {}
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, Mapping):
            out.update(_flat(value, path, name + "."))
        elif isinstance(value, bool):
            out[name] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            out[name] = str(value)
        else:
            raise InvalidOptionError(f"{name} in {path}: expected text, a number or true/false", option=name, path=path)
    return out
