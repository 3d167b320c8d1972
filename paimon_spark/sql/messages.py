"""Messages of Catalog and Table in the words of SQL."""

from __future__ import annotations

from paimon_spark.advice import Entrance, reworded
from paimon_spark.errors import PaimonError
from paimon_spark.types import quoted_if_needed


def in_plain_sql(text: str, catalog_name: str) -> str:
    """A message about a catalog that is attached to the session, for plain `spark.sql`."""
    return reworded(text, Entrance.ATTACHED).replace("CALL sys.", f"CALL {quoted_if_needed(catalog_name)}.sys.")


def reword(error: PaimonError, *, is_call: bool, catalog_name: str | None = None) -> None:
    """Replace Python arguments in the message of an error; `catalog_name` is that of an attached catalog."""
    message = reworded(error.message, Entrance.CALL if is_call else Entrance.STATEMENT)
    error.message = message if catalog_name is None else in_plain_sql(message, catalog_name)
    error.args = (error.message,)
