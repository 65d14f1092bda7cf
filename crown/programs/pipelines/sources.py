"""The relations of a program whose batch is one native call, and how their batches are scanned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.ingest.batch import Gated
from crown.ingest.tables.given import Scan
from crown.programs.kernels import sources as kernels
from crown.programs.pipelines.feeds import BlockFeed
from crown.programs.pipelines.plan import Plan
from crown.stages.kernels.prefetch import AHEAD
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.schema import Column

_TEXTS = ("string", "binary")  # types whose values the call enters in the dictionary


class Source:
    """A relation (``name``, in lower case) whose batches are scanned; its rows have so many columns (``width``).

    ``coded``: the columns of texts. ``gate``: the table of the base tables that counts its tuples, and whether no count
    falls below 0; None if there is none. ``nets``: what reads it takes nets. ``chosen``: the feed that leaves out rows
    which a scan cannot tell.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[Column],
        gate: tuple[int, bool] | None,
        nets: bool,
        chosen: BlockFeed | None = None,
    ) -> None:
        self.name = name
        self.width = len(columns)
        self.coded = [i for i, column in enumerate(columns) if column.type in _TEXTS]
        self.scan: Scan | None = None
        self._gate, self._clamps = (0, False) if gate is None else gate
        self._nets = nets
        self.chosen = chosen

    @staticmethod
    def misfit(columns: Sequence[Column]) -> str | None:
        """Returns why rows with these columns cannot be scanned all at once; None if they can."""
        if not columns:
            return "no column of it is read"
        wrong = (one for one in columns if uses_dictionary(one.type) and one.type not in _TEXTS)
        return next((f"column {one.name} has type {one.type}" for one in wrong), None)

    @property
    def counted(self) -> bool:
        """Returns True if the base tables count the tuples."""
        return self._gate > 0

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a row takes."""
        return int(kernels.words_of_rows(self.width)) + (0 if self.chosen is None else self.chosen.each)

    @property
    def fixed(self) -> int:
        """Returns how many more words of the memory of a run are needed."""
        return 3 * self.width + AHEAD + (0 if self.chosen is None else self.chosen.fixed)

    def words(self, plan: Plan) -> list[int]:
        """Returns its words in a plan, to which it adds what they point to. A source of which no batch came yet has no
        scan."""
        found = [0] * kernels.SOURCE
        if self.scan is not None:
            found[kernels.C_SCAN], found[kernels.C_MOST] = plan.add(self.scan.plan), self.scan.most
            found[kernels.C_TEXTS] = plan.add_octets(self.scan.texts.tobytes())
        found[kernels.C_WIDTH], found[kernels.C_NETS] = self.width, self._nets
        found[kernels.C_GATE], found[kernels.C_CLAMPS] = self._gate, self._clamps
        found[kernels.C_CHOSEN] = 0 if self.chosen is None else plan.add(self.chosen.words(plan))
        found[kernels.C_CODED], found[kernels.C_CODED0] = len(self.coded), plan.add(self.coded)
        return found

    def net(self, memory: np.ndarray, words: Sequence[int], at: int) -> Zset:
        """Returns the net of the last batch, whose words are from number ``at`` on."""
        n, width = words[at + kernels.R_EVENTS], self.width
        codes, weights = words[at + kernels.R_CODES], words[at + kernels.R_WEIGHTS]
        columns = memory[codes : codes + n * width].reshape(width, n).copy()
        return Zset(columns.T, memory[weights : weights + n].copy(), nulls=bool(words[at + kernels.R_NULLS]))

    def gated(self, memory: np.ndarray, words: Sequence[int], at: int) -> Gated:
        """Returns how far its tuples were counted."""
        before, n = words[at + kernels.R_BEFORE], words[at + kernels.R_EVENTS]
        return Gated(words[at + kernels.R_GATED], memory[before : before + n].copy())
