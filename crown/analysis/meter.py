"""What the last batch cost: the counters of all stages before it and after it, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from crown.analysis.parts import header, stages_of
from crown.maintained import Queryable

Headers = list[list[np.ndarray]]
"""Per stage and cell, a copy of the header of its arena."""


@dataclass(frozen=True)
class LastBatch:
    """Seconds, and the counters before and after."""

    seconds: float
    before: Headers
    after: Headers


class Meter:
    """Remembers the last batch that an engine has finished. A few microseconds per batch."""

    def __init__(self, engine: Queryable) -> None:
        self._headers = [[header(state) for state in part.states] for part in stages_of(engine)]
        self._started: tuple[float, Headers] | None = None
        self._applied = engine.uninterrupted
        self.last: LastBatch | None = None

    @property
    def begun(self) -> float | None:
        """Returns when the batch began that is being applied; None if none is."""
        started = self._started  # another thread may ask
        return started[0] if started is not None and self._applied.held else None

    def begin(self) -> None:
        """Notes that a batch begins."""
        self._started = (perf_counter(), self._copies())

    def end(self) -> None:
        """Notes that the batch is done; one that fails never gets here."""
        if self._started is not None:
            seconds, before = self._started
            self.last = LastBatch(perf_counter() - seconds, before, self._copies())
            self._started = None

    def _copies(self) -> Headers:
        return [[one.copy() for one in stage] for stage in self._headers]
