"""The dictionary of an engine: maps byte values to codes and back, in an arena.

A code is the handle of the value's entry, so decoding is a copy and needs no second structure. A short value is its own
code and has no entry. Entries have no reference counts. Unreferenced entries are removed by mark and sweep when the
words of the dictionary have doubled since the last sweep, and have grown by a share of the state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa

from crown.errors import MemoryBudgetError
from crown.kernels import strings
from crown.kernels.memory.arena import H_DICT_SWEPT, H_LIVE, T_COUNT
from crown.store.arrow_buffers import Texts
from crown.store.budget import Budget
from crown.store.codec import of_bytes
from crown.store.lookups import Lookup
from crown.store.memory import SLACK, address_of, numbers
from plans.expressions.expr import Expr

Result = TypeVar("Result")
_LEAST_GROWTH = 8192  # words of entries before a sweep
_WORDS_READ = 8  # words of other state that a sweep may read per word added to the dictionary
_EVERY = np.empty(0, np.int64)


class Dictionary:
    """Dictionary ``table`` (a header word) of ``arena``, which is part ``part`` of ``budget`` and holds nothing else.

    ``memory``: the arena as words and as bytes, for kernels that compare values.

    ``intern`` may be called from several threads. Kernels that enter values by themselves, or look codes up, run under
    the ``lock``.
    """

    def __init__(self, arena: np.ndarray, table: int, budget: Budget, part: int = 0) -> None:
        self.table = table
        self.budget = budget
        self.part = part
        self._arena = arena
        self._words = numbers(arena)
        self._bytes = arena.view(np.uint8)
        self.memory = arena, self._bytes
        self.lock = threading.Lock()
        self._lookups: dict[Expr, Lookup] = {}

    def __len__(self) -> int:
        return int(self._arena[self.table + T_COUNT])

    @property
    def overgrown(self) -> bool:
        """Returns True when a sweep is due. The cost is amortized O(1) per word ever added, since a sweep reads all of
        the state that may reference an entry. Unreferenced entries take at most as much as referenced ones plus a share
        of the rest."""
        live = self._words[H_LIVE]
        others = self.budget.used - live
        return live > 2 * self._words[H_DICT_SWEPT] + _LEAST_GROWTH + others // _WORDS_READ

    def intern(self, texts: Texts, add: bool) -> np.ndarray:
        """Returns the codes (int64[n]) of byte values.

        Unknown values are added, or get code 0. Raises MemoryBudgetError if there is no room for them. Some values have
        then been added, and the next sweep removes them. O(bytes).
        """
        with self.lock:
            return self.interned(texts, add)

    def interned(self, texts: Texts, add: bool) -> np.ndarray:
        """Does what ``intern`` does. The caller holds the lock."""
        codes = np.empty(texts.n, np.int64)
        if len(codes):
            self._encode(texts, codes, int(add))
        return codes

    def _encode(self, texts: Texts, codes: np.ndarray, add: int) -> None:
        expected = _longest(texts.ends)
        self.budget.allow(self.part, expected)
        rows, done = _EVERY if texts.rows is None else texts.rows, 0
        data, _ = address_of(texts.data)
        while done < len(codes):
            try:
                done = int(strings.encode(self._arena, self.table, data, texts.ends, rows, codes, done, add))
            except MemoryError as error:
                raise self.budget.refusal() from error
            if done < len(codes) and not self.budget.extend(self.part, expected):
                raise self.budget.refusal()

    def extern(self, codes: np.ndarray, kind: str) -> pa.Array:
        """Returns the values for codes (int64[n]) of a type that uses the dictionary. O(bytes)."""
        offsets = np.empty(len(codes) + 1, np.int64)
        data = np.empty(strings.decoded_size(self._arena, codes, offsets), np.uint8)
        strings.decode(self._arena, self._bytes, codes, offsets, data)
        return of_bytes(codes != strings.NULL, offsets, data, kind)

    def lookup(self, expr: Expr) -> Lookup:
        """Returns what is known of an expression over one text column, by the codes of texts. Valid until the next
        ``learn`` or sweep."""
        found = self._lookups.get(expr)
        if found is None:
            found = self._lookups[expr] = Lookup(expr, self.extern, self.interned)
        return found

    def learn(self) -> int:
        """Decides the texts that kernels did not find in lookups, and returns the most of one lookup. The caller holds
        the lock."""
        known: dict[bytes, pa.Array] = {}
        return max([lookup.learn(known) for lookup in self._lookups.values()], default=0)

    def mark_column(self, arena: np.ndarray, table: int, word: int) -> None:
        """Marks the values that word ``word`` of the records of a table references, for the next sweep. O(table)."""
        strings.mark(self._arena, arena, table, word)

    def mark_codes(self, codes: np.ndarray) -> None:
        """Marks the values with these codes (int64[n]), for the next sweep."""
        strings.mark_codes(self._arena, codes)

    def sweep(self) -> int:
        """Frees every unmarked entry. Returns how many it freed. O(dictionary)."""
        self._lookups.clear()  # a freed code may become that of another value
        entries = int(self._arena[self.table + T_COUNT])
        return int(strings.sweep(self._arena, self.table, np.empty(entries, np.int64)))


def _longest(offsets: np.ndarray) -> int:
    """Returns the words of the longest value if it can be longer than the largest step of a kernel, else 0."""
    every = int(offsets[-1] - offsets[0]) // 8
    return 0 if every < SLACK else int(np.diff(offsets).max()) // 8


def with_room(dictionary: Dictionary, work: Callable[[], Result], sweep: Callable[[], object]) -> Result:
    """Returns the result of ``work``, which adds values. Calls ``sweep`` before it if the dictionary is overgrown, and
    repeats ``work`` after a ``sweep`` if it found no room.

    Values of rejected batches fill a dictionary until it is swept.
    """
    if dictionary.overgrown:
        sweep()
    try:
        return work()
    except MemoryBudgetError:
        sweep()
    try:
        return work()
    except MemoryBudgetError:
        sweep()
        raise
