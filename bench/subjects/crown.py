"""CROWN's engine as a subject, in its modes.

*none* maintains the views only; *delta* enumerates every delta into reused buffers; *full* maintains the views and
enumerates the full result now and then; *count* maintains the views and counts the results at the end; *arrow* delivers
deltas as ``crown.View.apply_batches`` does.
"""

from __future__ import annotations

from typing import Any

from bench.cases.checksum import of_batch
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.subject import SkipError, Totals
from crown.errors import CrownError
from crown.programs.program import ProgramEngine
from crown.stages.joins.core import Join
from crown.views import View
from plans import plan as make_plan
from plans.program import program_of

SEED = 7
MODES = ("none", "delta", "full", "arrow", "count")


class Crown:
    """``crown`` over one arena. ``threads`` > 1 splits the plan into cells, if the engine supports it."""

    def __init__(self, loaded: Loaded, mode: str, threads: int = 1) -> None:
        if mode == "full" and threads > 1:
            raise SkipError("the full enumeration into reused buffers is that of one engine")
        if mode not in MODES:
            raise SkipError(f"the embedded engine has no mode {mode}")
        try:
            self.plan = make_plan(loaded.sql, loaded.schema)
            self._engine = ProgramEngine.create(program_of(self.plan), seed=SEED, threads=threads)
        except CrownError as error:
            raise SkipError(str(error).splitlines()[0]) from None
        self._view = View(self._engine)
        self._mode = mode
        # Deltas that are counted, filtered or netted are delivered only by `run`.
        self._plain = not (self.plan.support or self.plan.residual)
        self._checking = False
        self._count = self._sum = 0

    def checking(self) -> None:
        """Delivers deltas as Arrow batches and sums them up; in modes without deltas, the result is read."""
        self._checking = True

    def apply(self, batch: Batch) -> int:
        """Applies one batch in this mode."""
        if self._mode in ("none", "full", "count"):
            self._view.update(batch)
            return 0
        if self._mode == "delta" and self._plain and not self._checking:
            return self._engine.discard(batch)
        n = 0
        for part in self._view.apply_batches(batch):
            n += part.num_rows
            if self._checking:
                weight = part.column(part.num_columns - 1).to_numpy()
                self._count += int(weight.sum())
                self._sum += int((of_batch(part, part.num_columns - 1) * weight).sum())
        return n

    def load(self, batch: Batch) -> None:
        """Loads into the views only, in every mode."""
        self._view.update(batch)

    def enumerate(self) -> int:
        """Enumerates the full result into reused buffers; in mode *count* only counts it."""
        if self._mode == "count":
            return self._view.count()
        last = self._engine.stages[-1]
        blocks = (rows for core in last.cores for rows in core.rows()) if isinstance(last, Join) else last.scan()
        return sum(map(len, blocks))

    def totals(self) -> Totals:
        """Returns count and checksum of the result. In modes that deliver deltas, compares their sum with a full
        enumeration.

        In the other modes, reads the full enumeration.
        """
        count, total = 0, 0
        for part in self._view.results():
            count += part.num_rows
            total += int(of_batch(part, part.num_columns).sum())
        if self._mode in ("delta", "arrow") and self._checking and (count, total) != (self._count, self._sum):
            raise AssertionError(f"deltas sum up to {self._count} rows, the full enumeration has {count}")
        if self._mode == "count" and self._view.count() != count:
            raise AssertionError(f"the count is {self._view.count()}, the full enumeration has {count} rows")
        return Totals(count, total)

    def state_bytes(self) -> int:
        """Returns the bytes of the arena in use."""
        return int(self._view.stats()["live_bytes"])

    def stats(self) -> dict[str, Any]:
        """Returns the engine's counters and properties of its plan."""
        stats = self._view.stats()
        stats = {**stats["stages"][0], **stats}
        touched = stats["r_updates"] + stats["s_updates"] + stats["p_updates"] + stats["live_flips"]
        return {**stats, "touched": touched, "height": self.plan.height, "trees": self.plan.candidate_count}

    def close(self) -> None:
        """Does nothing: the subject holds only memory."""
