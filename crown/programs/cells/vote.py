"""Lets several cells agree to commit a batch: all of them commit it, or none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from crown.errors import CrownError

_TICK = 0.01  # seconds between two checks whether a batch must stop


class Stopped(CrownError):
    """Makes a cell undo its part of a batch, because another cell has failed."""

    def __init__(self) -> None:
        super().__init__("another cell has stopped the batch")


class Vote:
    """Blocks ``cells`` that have applied a batch until it is decided whether the batch is committed."""

    def __init__(self, cells: int) -> None:
        self._pending = cells
        self._condition = threading.Condition()
        self._committed: bool | None = None
        self._failed = False

    def await_decision(self) -> None:
        """Registers a cell that has applied its part, and waits. Raises Stopped if the batch is not committed."""
        with self._condition:
            self._pending -= 1
            self._condition.notify_all()
            while self._committed is None:
                self._condition.wait()
        if not self._committed:
            raise Stopped

    def check(self) -> None:
        """Raises Stopped if the batch cannot be committed any more."""
        if self._failed or self._committed is False:
            raise Stopped

    def fail(self) -> None:
        """Registers a cell that has failed."""
        with self._condition:
            self._failed = True
            self._condition.notify_all()

    def await_others(self, check: Callable[[], None]) -> None:
        """Waits until all cells have applied their parts.

        Raises Stopped if a cell has failed, and what ``check`` raises.
        """
        with self._condition:
            while self._pending and not self._failed:
                if not self._condition.wait(_TICK):
                    check()
        self.check()

    def decide(self, commit: bool) -> None:
        """Decides the vote, unless it is decided."""
        with self._condition:
            if self._committed is None:
                self._committed = commit
            self._condition.notify_all()
