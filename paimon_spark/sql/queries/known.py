"""A session for one statement, which asks each question on names once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from paimon_spark.sql.session import Session


@dataclass(frozen=True, slots=True)
class KnownNames(Session):
    """A session that remembers which databases, tables and views there are, while it finds a statement's names."""

    seen: dict[tuple[str, ...], bool] = field(default_factory=dict, repr=False)

    @classmethod
    def over(cls, session: Session) -> KnownNames:
        """The session given, with a memory."""
        return cls(**{f.name: getattr(session, f.name) for f in fields(Session)})

    def has_database(self, name: str) -> bool:
        """As `Session.has_database`."""
        if ("databases",) not in self.seen:
            self.seen[("databases",)] = True
            self.seen.update({("database", n): True for n in self.catalog.list_databases()})
        return self.seen.get(("database", name), False)

    def has_table(self, database: str, table: str) -> bool:
        """As `Session.has_table`."""
        key = ("table", database, table)
        if key not in self.seen:
            self.seen[key] = Session.has_table(self, database, table)
        return self.seen[key]

    def has_view(self, name: str) -> bool:
        """As `Session.has_view`."""
        key = ("view", name.lower())
        if key not in self.seen:
            self.seen[key] = Session.has_view(self, name)
        return self.seen[key]
