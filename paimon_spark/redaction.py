"""Secrets among options and in texts: what is one, and how it is shown.

Everything that shows options, locations or messages goes through this module: errors, logs, `repr`, SQL, HTML and the
command line.

Source: own; `spark.redaction.regex` and `spark.sql.redaction.options.regex` of Spark, whose words are among these.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from paimon_spark.text import safe

HIDDEN: Final = "*********(redacted)"
"""What Spark shows, too."""
HARMLESS: Final = (
    # of tables
    "bucket-key", "chain-table.chain-partition-keys", "chain-table.split.key-range-enabled",
    "key-value.sequence_number.enabled", "log.key.format", "orc.dictionary.key.threshold", "primary-key",
    "primary-key.nullable", "query-auth.enabled", "sink.key-only-deletes.enabled", "upsert-key",
    # of catalogs and file systems
    "catalog-key", "data-token.enabled", "dlf.token-ecs-role-name", "dlf.token-loader", "dlf.token-path",
    "lock-key-max-length", "security.kerberos.login.keytab", "token.provider",
)  # fmt: skip
"""Known options that are named as secrets are, and hold none: names of columns and files, numbers, switches."""
_HARMLESS_ENDS: Final = tuple(f".{name}" for name in HARMLESS)
"""As they end a key with a prefix, such as `table-default.`."""
_OF_COLUMNS: Final = ("fields.", "file-index.")
"""Beginnings of options whose names hold a column."""
_WORDS: Final = (
    r"secret|passw|passphrase|pwd|token|credential|key|auth(?!or(?!i))|cookie|kwargs|signature|jaas"
    r"|conn(?:ection)?[._-]?str(?:ing)?|\bsas\b|url|headers|(?<![\w-])header(?![\w-])|(?<![a-z0-9])pass(?![a-z0-9])"
)
_SECRET: Final = re.compile(_WORDS, re.IGNORECASE)
_HEADERS: Final = "header."
_IN_GROUP: Final = re.compile(r"([\w.-]+)['\"]?\s*[:=]")
_ANY_USER: Final = r"://[^/@\s:'\"]*"
_IN_USER_INFO: Final = re.compile(rf"({_ANY_USER}):(?:[^/\s'\"]*@|(?!\d+(?:[/?#,'\"\s]|$))[^\s@]*@)")
"""A password up to the last @ of the host part; one with slashes or quotes is not mistaken for a port."""
_WITHOUT_SCHEME: Final = re.compile(r"^([^/\s:@'\"]+):[^\s@]+@")
_OF_ORACLE: Final = re.compile(r"(jdbc:oracle:\w+:[^/@\s'\"]*)/[^\s@]+@", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"([?&;(,](?:\w+[.-])*([\w%-]+)=)([^&;#\s'\",)]+)")
_IN_PARAMETER: Final = re.compile(r"secret|passw|pwd|token|credential|key|auth|sig(?:nature)?$", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether the value of an option is not shown."""
    lower = key.lower()
    if lower.startswith(_HEADERS):
        return True
    if lower.startswith(_OF_COLUMNS) or f".{lower}".endswith(_HARMLESS_ENDS):
        return False
    return _SECRET.search(lower) is not None


def shown_option(key: str, value: str) -> str:
    """The value of an option, hidden if it is a secret or a group of settings with one."""
    if is_secret(key):
        return HIDDEN
    if value.lstrip()[:1] in ("{", "[") and any(is_secret(name) for name in _IN_GROUP.findall(value)):
        return HIDDEN
    if key.lower().endswith("uri") and "://" not in value:
        value = _WITHOUT_SCHEME.sub(r"\1:*****@", value)
    return without_passwords(value)


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options with secrets hidden."""
    return {key: shown_option(key, value) for key, value in options.items()}


def shown_changes(options: Mapping[str, tuple[str | None, str | None]]) -> dict[str, tuple[str | None, str | None]]:
    """Old and new values of options with secrets hidden; None is not set, and stays."""
    return {
        key: (None if old is None else shown_option(key, old), None if new is None else shown_option(key, new))
        for key, (old, new) in options.items()
    }


class ShownOptions(dict[str, str]):
    """Options that hide their secrets when they are shown."""

    def __repr__(self) -> str:
        return repr(shown_options(self))

    __str__ = __repr__


def without_passwords(text: str) -> str:
    """The text with the passwords in its URLs hidden: `jdbc:postgresql://user:*****@host/db?password=*****`."""
    if "@" in text:
        text = _OF_ORACLE.sub(r"\1/*****@", _IN_USER_INFO.sub(r"\1:*****@", text))
    return _PARAMETER.sub(_shown_parameter, text) if "=" in text else text


def _shown_parameter(found: re.Match[str]) -> str:
    return f"{found[1]}*****" if _IN_PARAMETER.search(found[2]) else found[0]


def has_password(url: str) -> bool:
    """Whether a URL has a password before its host."""
    return _IN_USER_INFO.search(url) is not None


def without_user_password(url: str) -> str:
    """The URL without the password before its host: `sftp://user@host/path`."""
    return _IN_USER_INFO.sub(r"\1@", url)


def spark_pattern() -> str:
    """The value of `spark.sql.redaction.options.regex` by which SET hides what `is_secret` says."""
    harmless = "|".join(re.escape(name).replace(r"\-", "-") for name in HARMLESS)
    settings = r"^spark\.(?:sql\.catalog\.[^.]+|paimon)\."
    return rf"(?i)url|{settings}(?:header\.|(?!(?:.*\.)?(?:{harmless})$).*(?:{_WORDS}))"


def get_logger(name: str) -> logging.Logger:
    """The logger of a module, whose messages keep to one line and hide passwords in URLs, as do its tracebacks."""
    logger = logging.getLogger(name)
    logger.addFilter(_hide)
    return logger


_FORMATTER: Final = logging.Formatter()


def _hide(record: logging.LogRecord) -> bool:
    """A filter of `logging` that keeps all records, and hides the passwords in them."""
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - logging itself reports arguments that do not fit
        return True
    shown = safe(without_passwords(text))
    if shown != text:
        record.msg, record.args = shown, ()
    if record.exc_info and not record.exc_text:
        trace: Any = record.exc_info
        lines = without_passwords(_FORMATTER.formatException(trace)).split("\n")
        record.exc_text = "\n".join(map(safe, lines))
    return True
