"""The interface of every measured engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bench.cases.streams import Batch

Progress = Callable[[int, int], None]
"""Reports the number of updates done, and the total."""


class SkipError(Exception):
    """This engine does not take part in this cell; the message is the reason in one line."""


@dataclass(frozen=True)
class Totals:
    """The totals of an engine's result: rows, and the checksum of ``bench.cases.checksum`` (None if it only counts)."""

    count: int
    checksum: int | None


class Subject(Protocol):
    """One engine with one workload.

    Constructed with (loaded workload, mode, options); raises SkipError if it does not support them. ``checking`` is
    called before the first ``apply`` and makes the engine track count and checksum of its result, at a cost that is not
    measured.
    """

    def checking(self) -> None:
        """Starts tracking the values that ``totals`` returns."""

    def apply(self, batch: Batch) -> int:
        """Updates the result. Returns the number of deltas delivered, 0 in modes that deliver none."""

    def load(self, batch: Batch) -> None:
        """Loads a batch without delivering anything, as cheaply as the engine can, before the measurement."""

    def enumerate(self) -> int:
        """Enumerates the full result, drops it and returns its size. Modes *full* and *count* only."""

    def totals(self) -> Totals:
        """Returns the current count and checksum of the result."""

    def state_bytes(self) -> int | None:
        """Returns the bytes of state, if the engine reports them."""

    def stats(self) -> dict[str, Any]:
        """Returns counters of work, sizes, and anything else worth storing."""

    def close(self) -> None:
        """Releases its resources."""
