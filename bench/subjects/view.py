"""This project through its public API: ``crown.view``, deltas as Arrow tables; for queries that are programs of stages.

*delta* is ``View.apply``, which returns the deltas of a batch as one table; *ranges* is the same in ranges; *none* is
``View.update``.
"""

from __future__ import annotations

from typing import Any

import crown
from bench.cases.checksum import of_batch
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.subject import SkipError, Totals
from crown.errors import CrownError

WORK = ("r_updates", "s_updates", "p_updates", "live_flips")


class PublicView:
    """A view of the query. ``options``: those of ``crown.view``."""

    def __init__(self, loaded: Loaded, mode: str, **options: Any) -> None:
        if mode not in ("delta", "none", "ranges"):
            raise SkipError(f"the public view has no mode {mode}")
        try:
            self._view = self._made(loaded, **options)
        except CrownError as error:
            raise SkipError(str(error).splitlines()[0]) from None
        self._mode = mode
        self._checking = False
        self._count = self._sum = 0

    def _made(self, loaded: Loaded, **options: Any) -> crown.View:
        return crown.view(loaded.program, **options)

    def checking(self) -> None:
        """Sums up the deltas."""
        self._checking = True

    def apply(self, batch: Batch) -> int:
        """Applies one batch in this mode. Returns the rows of its delta, 0 in mode *none*."""
        if self._mode == "none":
            self._view.update(batch)
            return 0
        delta = self._view.apply(batch, ranges=self._mode == "ranges")
        if self._checking and self._mode == "delta":
            weight = delta.column(delta.num_columns - 1).to_numpy()
            self._count += int(weight.sum())
            self._sum += int((of_batch(delta, delta.num_columns - 1) * weight).sum())
        return int(delta.num_rows)

    def load(self, batch: Batch) -> None:
        """Loads a batch without computing deltas."""
        self._view.update(batch)

    def enumerate(self) -> int:
        """Raises SkipError: this subject does not enumerate."""
        raise SkipError("the public view is measured by its deltas")

    def totals(self) -> Totals:
        """Reads the full result; in mode *delta* the deltas so far must sum up to it."""
        count, total = 0, 0
        for part in self._view.results(weighted=True):
            width = part.num_columns - 1
            weight = part.column(width).to_numpy()
            count += int(weight.sum())
            total += int((of_batch(part, width) * weight).sum())
        if self._mode == "delta" and self._checking and (count, total) != (self._count, self._sum):
            raise AssertionError(f"deltas sum up to {self._count} rows, the full result has {count}")
        return Totals(count, total)

    def state_bytes(self) -> int:
        """Returns the bytes of state in use: of all stages, the dictionary, and the base tables."""
        return int(self._view.stats()["live_bytes"])

    def stats(self) -> dict[str, Any]:
        """Returns the view's counters, the number of rows that its join trees touched and emitted, and the steps of its
        ordered stages.
        """
        stats = self._view.stats()
        stages = stats.get("stages", [stats])
        touched = sum(stage.get(name, 0) for stage in stages for name in WORK)
        sums = {name: sum(stage.get(name, 0) for stage in stages) for name in ("emitted", "steps")}
        return {**stats, "touched": touched, **sums}

    def close(self) -> None:
        """Does nothing: the subject holds only memory."""
