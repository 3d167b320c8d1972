"""ActingStore: a store that lets others act right before one of its calls, in the same thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from paimon_spark.errors import CommitOutcomeUnknownError, PaimonError
from tests.harness.fault_store import Call, FaultStore


@dataclass
class Turn:
    """When others act.

    Attributes:
        act: called with each call of the thread that made this; acts of its own calls are not counted.
        calls: the number of calls, before each of which it was called.
    """

    act: Callable[[int, Call], None]
    calls: int = 0
    thread: int = field(default_factory=threading.get_ident)
    is_acting: bool = False

    def take(self, call: Call) -> None:
        if self.is_acting or threading.get_ident() != self.thread:
            return
        self.calls += 1
        self.is_acting = True
        try:
            self.act(self.calls, call)
        finally:
            self.is_acting = False


@dataclass(frozen=True)
class ActingStore(FaultStore):
    """FaultStore with turns of others."""

    turns: list[Turn] = field(default_factory=list)

    @contextmanager
    def meanwhile(self, act: Callable[[int, Call], None]) -> Iterator[Turn]:
        """Inside, `act` is called before each call of this thread, with its number from 1."""
        turn = Turn(act)
        self.turns.append(turn)
        try:
            yield turn
        finally:
            self.turns.remove(turn)

    @contextmanager
    def _faults(self, call: Call) -> Iterator[None]:
        for turn in list(self.turns):
            turn.take(call)
        with super()._faults(call):
            yield


@dataclass
class Commits:
    """Commits of writers, by what each was told.

    Attributes:
        made: names of those that their writers were told are made.
        refused: of those that are nowhere, as their writers were told.
        unknown: of those whose writers were told to look.
    """

    made: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    @property
    def all(self) -> set[str]:
        return self.made | self.refused | self.unknown

    def include(self, others: Commits) -> None:
        self.made |= others.made
        self.refused |= others.refused
        self.unknown |= others.unknown

    def attempt(self, name: str, commit: Callable[[], object]) -> None:
        try:
            commit()
        except CommitOutcomeUnknownError:
            self.unknown.add(name)
        except PaimonError:
            self.refused.add(name)
        else:
            self.made.add(name)
