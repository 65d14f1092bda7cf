"""Delays Ctrl-C while a batch is applied, until the state is consistent.

Python raises ``KeyboardInterrupt`` between any two instructions, even between a kernel's return and the line that
records its effect. While a batch is applied, SIGINT is therefore only noted. It is delivered at a point where the batch
can be undone (``check``), or at the end. Other handlers of SIGINT also receive the signal late. Nothing is done in
threads other than the main one, where Python never raises it.
"""

from __future__ import annotations

import threading
from _signal import SIGINT, getsignal, signal  # skips the wrappers of the module signal: a tenth of the time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_Handler = Callable[[int, FrameType | None], Any]


class Uninterrupted:
    """A context in which SIGINT waits. It is reentrant.

    ``asked``: a function that is called whenever a batch can be undone; an error that it raises stops the batch, too.
    """

    def __init__(self, asked: Callable[[], None] | None = None) -> None:
        self._asked = asked
        self._depth = 0
        self._noted = False
        self._delivers: _Handler | None = None  # the handler that this one replaces

    def __enter__(self) -> Self:
        if self._depth == 0 and threading.get_ident() == threading.main_thread().ident:
            present = getsignal(SIGINT)
            left = getattr(present, "__self__", None)
            if isinstance(left, Uninterrupted):  # depth 0: another signal's exception interrupted its exit
                present = None if left._depth else left._delivers
            if callable(present):
                self._noted = False
                self._delivers = present
                signal(SIGINT, self._note)
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth or self._delivers is None:
            return
        delivers = self._delivers
        signal(SIGINT, delivers)
        self._delivers = None
        if self._noted:  # even if an error is raised: it becomes the context of the handler's error
            self._noted = False
            delivers(SIGINT, None)

    @property
    def held(self) -> bool:
        """Returns True while the context is entered."""
        return self._depth > 0

    def check(self) -> None:
        """Delivers a noted SIGINT: raises the error of its handler, ``KeyboardInterrupt`` by default."""
        if self._asked is not None:
            self._asked()
        if self._noted and self._delivers is not None:
            self._noted = False
            self._delivers(SIGINT, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = True
