"""A batch in several cells stands in all of them or in none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from crown.errors import CrownError

_TICK = 0.01  # seconds between two checks whether a batch must stop


class Stopped(CrownError):
    """A cell undoes its part of a batch because another one has not applied its own."""

    def __init__(self) -> None:
        super().__init__("another cell has stopped the batch")


class Vote:
    """Cells that have applied a batch wait here until it is decided whether it stands. ``cells``: how many wait."""

    def __init__(self, cells: int) -> None:
        self._left = cells
        self._condition = threading.Condition()
        self._stands: bool | None = None
        self._failed = False

    def await_decision(self) -> None:
        """Says that a cell has applied its part, and waits. Raises Stopped if the batch does not stand."""
        with self._condition:
            self._left -= 1
            self._condition.notify_all()
            while self._stands is None:
                self._condition.wait()
        if not self._stands:
            raise Stopped

    def check(self) -> None:
        """Raises Stopped if the batch cannot stand any more."""
        if self._failed or self._stands is False:
            raise Stopped

    def fail(self) -> None:
        """Says that a cell has not applied its part."""
        with self._condition:
            self._failed = True
            self._condition.notify_all()

    def await_others(self, check: Callable[[], None]) -> None:
        """Returns when all cells have applied their parts. Raises Stopped if one has not, and what ``check``
        raises."""
        with self._condition:
            while self._left and not self._failed:
                if not self._condition.wait(_TICK):
                    check()
        self.check()

    def decide(self, stands: bool) -> None:
        """Ends the vote, unless it has ended."""
        with self._condition:
            if self._stands is None:
                self._stands = stands
            self._condition.notify_all()
