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
        """From now on keep track of what ``totals`` returns."""

    def apply(self, batch: Batch) -> int:
        """Bring the result up to date; number of deltas delivered (0 in modes that deliver none)."""

    def load(self, batch: Batch) -> None:
        """Take a batch in without delivering anything, as cheaply as the engine can; before what is measured."""

    def enumerate(self) -> int:
        """Enumerate the full result and drop it; its size. Mode *full* only."""

    def totals(self) -> Totals:
        """Count and checksum of the result now."""

    def state_bytes(self) -> int | None:
        """Bytes of state, if the engine knows."""

    def stats(self) -> dict[str, Any]:
        """Anything worth keeping: counters of work, sizes."""

    def close(self) -> None:
        """Release what it holds."""
