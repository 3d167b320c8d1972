"""CatalogServer: a server that makes the snapshots, schemas and branches of a table.

Whoever wrote such a file would leave the server with an older state, and the server would refuse all later commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.storage.store import Store

if TYPE_CHECKING:
    from paimon_spark.metadata.definition.schema_changes import SchemaChange


class CatalogServer(Protocol):
    """Operations of a server for one of its tables. All raise CatalogError."""

    @property
    def address(self) -> str:
        """Its address, for messages."""
        ...

    def change_schema(self, branch: str, changes: Sequence[SchemaChange]) -> None:
        """Make the next schema of a branch. Raises UnsupportedFeatureError: servers know no such change."""
        ...

    def create_branch(self, branch: str, tag: str | None) -> None:
        """Create a branch of main from one of its tags, an empty one without; done before, nothing."""
        ...


def server_of(store: Store) -> CatalogServer | None:
    """The server that a store of a table asks; None where files are all there is."""
    server: CatalogServer | None = getattr(store, "server", None)
    return server


def refuse_on_server(handle: TableHandle, what: str, remedy: str) -> None:
    """Raise UnsupportedFeatureError when a server has the table, as its API has no call for `what`."""
    server = server_of(handle.store)
    if server is not None:
        raise UnsupportedFeatureError(
            f"{what} of {handle.describe()} is not supported: the table is in the REST catalog {server.address}, whose "
            f"API has no such call; {remedy}",
            feature=what,
            table=handle.name,
            branch=handle.branch,
        )
