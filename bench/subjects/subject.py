"""The interface behind which every engine is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bench.cases.streams import Batch

Progress = Callable[[int, int], None]
"""Says how many updates are done, and of how many."""


class SkipError(Exception):
    """This engine does not take part in this cell; the message is the one line that says why."""


@dataclass(frozen=True)
class Totals:
    """What an engine knows of its result: rows, and the checksum of ``bench.cases.checksum`` (None where it only
    counts)."""

    count: int
    checksum: int | None


class Subject(Protocol):
    """One engine with one workload.

    Constructed with (loaded workload, mode, options); raises SkipError if it cannot do that. ``checking`` comes before
    the first ``apply`` and makes the engine follow count and checksum of its result, at a cost that is not measured.
    """

    def checking(self) -> None:
        """Keeps track, from now on, of what ``totals`` returns."""

    def apply(self, batch: Batch) -> int:
        """Brings the result up to date. Returns the number of deltas delivered, 0 in modes that deliver none."""

    def load(self, batch: Batch) -> None:
        """Takes a batch in without delivering anything, as cheaply as the engine can; before what is measured."""

    def enumerate(self) -> int:
        """Enumerates the full result, drops it and returns its size. Modes *full* and *count* only."""

    def totals(self) -> Totals:
        """Returns count and checksum of the result now."""

    def state_bytes(self) -> int | None:
        """Returns the bytes of state, if the engine knows."""

    def stats(self) -> dict[str, Any]:
        """Returns anything worth keeping: counters of work, sizes."""

    def close(self) -> None:
        """Releases what it holds."""
