"""Enforces the memory budget of a state, which its arena, its dictionary and the arenas of its bags share.

Before each insertion, a kernel compares the live words of its arena with ``H_BUDGET`` in the header of that arena. So
before a kernel runs, ``allow`` writes there what the other arenas leave of the budget. For a state in a file, or in
pieces of memory, ``allow`` also reserves room for the next step. No arena grows beyond ``H_LIMIT``, the end of its
reserved words.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from crown.errors import MemoryBudgetError
from crown.kernels.memory import arena as A
from crown.store.memory import ADDRESSABLE, SLACK, MappedFile, Space, no_addresses, numbers


class Budget:
    """The memory budget of a state, in ``words``. ``parts``: the arenas of the state.

    ``spaces``: for each arena, the space in which its words are reserved before use, or None if they need no
    reservation. ``fixed``: True if every arena may use all of its words; its header says so already, so no batch calls
    ``allow``.
    """

    def __init__(
        self, parts: Sequence[np.ndarray], words: int = ADDRESSABLE, spaces: Sequence[Space | None] = ()
    ) -> None:
        self.words = words
        self._short: int | None = None  # the error number of a reservation that was refused
        self._parts = parts
        self._headers = [numbers(part[: A.H_TABLES]) for part in parts]
        self._spaces = spaces or [None] * len(parts)
        self.fixed = words >= ADDRESSABLE and not any(self._spaces)
        self._lifted = False

    @property
    def used(self) -> int:
        """Returns the live words of all arenas."""
        return sum([header[A.H_LIVE] for header in self._headers])

    @property
    def tight(self) -> bool:
        """Returns True if there is a budget, and more than half of it is in use."""
        return self.words < ADDRESSABLE and 2 * self.used > self.words

    @property
    def full_disk(self) -> bool:
        """Returns True while the disk has no block for a reservation."""
        return self._short is not None and not self.short_of_addresses

    @property
    def short_of_addresses(self) -> bool:
        """Returns True while the system maps no memory for a reservation."""
        return self._short == errno.ENOMEM

    def change(self, words: int) -> None:
        """Sets the budget."""
        self.words = words
        self.fixed = words >= ADDRESSABLE and not any(self._spaces)
        if self.fixed:
            for header in self._headers:
                header[A.H_BUDGET] = words

    @contextmanager
    def limited(self, words: int | None) -> Iterator[None]:
        """Yields a context in which the budget is ``words``; None leaves it unchanged."""
        before = self.words
        self.change(before if words is None else words)
        try:
            yield
        finally:
            self.change(before)

    def allow(self, part: int, expected: int = 0) -> None:
        """Writes the allowance of arena ``part`` into its header. O(parts).

        ``expected``: words that the kernel may use before it checks its budget again.
        """
        header = self._headers[part]
        if self.fixed:
            header[A.H_BUDGET] = self.words
            return
        live = header[A.H_LIVE]
        allowed = len(self._parts[part]) if self._lifted else self.words - (self.used - live)
        if self._spaces[part] is not None:
            allowed = min(allowed, live + self._room(part, expected))
        header[A.H_BUDGET] = allowed

    def reach(self, part: int, reserved: int) -> int:
        """Returns the word up to which arena ``part`` may grow if ``reserved`` words of it are reserved."""
        return len(self._parts[part]) if self._spaces[part] is None else reserved

    def back(self, part: int, words: int) -> None:
        """Reserves the first ``words`` words of arena ``part`` and sets its limit.

        Raises MemoryBudgetError if there is no room for them.
        """
        arena, space = self._parts[part], self._spaces[part]
        reserved = self.reach(part, min(words, len(arena)))
        if space is not None:
            try:
                space.reserve(_start(space, arena), reserved)
            except OSError as error:
                if error.errno == errno.ENOMEM or not isinstance(space, MappedFile):
                    raise MemoryBudgetError(no_addresses()) from error
                raise MemoryBudgetError(
                    f"the disk has no room for the state file {space.path} ({error.strerror}); make room, or keep the "
                    "state elsewhere"
                ) from error
        arena[A.H_LIMIT] = reserved

    def stop(self, part: int) -> None:
        """Sets the allowance of arena ``part`` to zero, so that its kernel returns before the next insertion."""
        self._headers[part][A.H_BUDGET] = -1

    def extend(self, part: int, expected: int = 0) -> bool:
        """Returns True if a kernel that stopped at its budget can continue, because more room was found.

        ``expected``: see ``allow``.
        """
        self.allow(part, expected)
        header = self._headers[part]
        if self._lifted and header[A.H_LIVE] > header[A.H_BUDGET]:
            header[A.H_BUDGET] = header[A.H_LIMIT]  # the last of the reserved words
        return header[A.H_LIVE] <= header[A.H_BUDGET]

    def provide(self, part: int, words: int) -> bool:
        """Returns True if arena ``part`` can take ``words`` more words, which are then reserved."""
        header = self._headers[part]
        wanted = header[A.H_TOP] + words
        if wanted > len(self._parts[part]) or (not self._lifted and self.used + words > self.words):
            return False
        if self._spaces[part] is not None and header[A.H_LIMIT] < wanted:
            self._reserve(part, wanted)
        return wanted <= header[A.H_LIMIT]

    def refusal(self) -> MemoryBudgetError:
        """Returns the error for a batch that does not fit into memory."""
        used = 8 * self.used
        if self.short_of_addresses:
            return MemoryBudgetError(f"{no_addresses()}. The batch was undone ({used} bytes in use when it stopped)")
        if self.full_disk:
            return MemoryBudgetError(
                f"the disk has no room for more state ({used} bytes in use when the batch stopped); it was undone. "
                "Make room on the disk of the state file, or keep the state elsewhere"
            )
        return MemoryBudgetError(
            f"the batch needs more state than memory_budget={8 * self.words} bytes allows ({used} in use when it "
            "stopped); it was undone. Raise memory_budget, keep the state in a file (path=...), or spread it over "
            "more cells"
        )

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Yields a context in which a batch is undone. Only the reservable memory and the length of an arena limit
        it."""
        before, self._lifted = self._lifted, True
        try:
            yield
        finally:
            self._lifted = before

    def _room(self, part: int, expected: int = 0) -> int:
        """Returns the words that may be used before more are reserved. The largest step of a single change still fits
        then.

        The largest step is the growth of the largest table, which has at most a third of the used words, to twice its
        size.
        """
        arena = self._parts[part]
        top = int(arena[A.H_TOP])
        step = 2 * (top + expected) // 3 + expected + SLACK
        wanted = top + step
        for more in (top // 3 + SLACK, 0):
            if arena[A.H_LIMIT] < min(wanted, len(arena)):
                self._reserve(part, min(wanted + more, len(arena)))
        return max(int(arena[A.H_LIMIT]) - wanted, -1)

    def _reserve(self, part: int, words: int) -> None:
        arena, space = self._parts[part], self._spaces[part]
        known = int(arena[A.H_LIMIT])
        assert space is not None
        try:
            space.reserve(_start(space, arena) + known, words - known)
        except OSError as error:
            self._short = error.errno or 0
            return
        self._short = None
        arena[A.H_LIMIT] = words


def _start(space: Space, arena: np.ndarray) -> int:
    """Returns the word of a space at which an arena begins."""
    return (arena.ctypes.data - space.words.ctypes.data) // 8
