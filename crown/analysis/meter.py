"""Measures the last batch: the counters of all stages before and after it, and its duration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import numpy as np

from crown.analysis.parts import stages_of
from crown.programs.cells.engine import Engine

Headers = list[list[np.ndarray]]
"""Per stage and cell, a copy of the header of its arena; empty for a stage without counters."""


@dataclass(frozen=True)
class LastBatch:
    """The duration of a batch in seconds, and the counters before and after it."""

    seconds: float
    before: Headers
    after: Headers


class Meter:
    """Stores the counters of the last batch that an engine has finished. Costs a few microseconds per batch."""

    def __init__(self, engine: Engine) -> None:
        parts = [part.headers for part in stages_of(engine)]
        self._sizes = list(map(len, parts))
        self._headers = [one for part in parts for one in part]
        self._started: tuple[float, list[np.ndarray]] | None = None
        self._ended: tuple[float, list[np.ndarray], list[np.ndarray]] | None = None
        self._applied = engine.uninterrupted

    @property
    def begun(self) -> float | None:
        """Returns the start time of the batch that is being applied; None if there is none."""
        started = self._started  # another thread may call this
        return started[0] if started is not None and self._applied.held else None

    def begin(self) -> None:
        """Records the start of a batch."""
        self._started = (perf_counter(), list(map(np.ndarray.copy, self._headers)))

    def end(self) -> None:
        """Records the end of a batch. Not called for a batch that fails."""
        if self._started is not None:
            started, before = self._started
            self._ended = (perf_counter() - started, before, list(map(np.ndarray.copy, self._headers)))
            self._started = None

    @property
    def last(self) -> LastBatch | None:
        """Returns the last batch; None before the first."""
        if self._ended is None:
            return None
        seconds, before, after = self._ended
        return LastBatch(seconds, self._by_stage(before), self._by_stage(after))

    def _by_stage(self, headers: list[np.ndarray]) -> Headers:
        rest = iter(headers)
        return [list(islice(rest, size)) for size in self._sizes]
