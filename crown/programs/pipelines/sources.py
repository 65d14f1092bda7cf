"""The relations of a program whose batch is one native call: how their batches are scanned, and what a join takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.ingest.batch import Gated
from crown.ingest.given import Scan, Test
from crown.ingest.kernels import scan
from crown.programs.kernels import sources as kernels
from crown.programs.kernels import tree
from crown.stages.kernels.prefetch import AHEAD
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.schema import Column


class Source:
    """A relation (``name``, in lower case) whose batches are scanned; its rows have so many columns (``width``).

    ``gate``: the table of the base tables that counts its tuples, and whether no count falls below 0; None if there is
    none. ``nets``: what reads it takes nets.
    """

    def __init__(self, name: str, columns: Sequence[Column], gate: tuple[int, bool] | None, nets: bool) -> None:
        self.name = name
        self.width = len(columns)
        self.scan: Scan | None = None
        self._gate, self._clamps = (0, False) if gate is None else gate
        self._nets = nets

    @staticmethod
    def misfit(columns: Sequence[Column]) -> str | None:
        """Returns why rows with these columns cannot be scanned all at once; None if they can."""
        if not columns:
            return "no column of it is read"
        return next((f"column {one.name} has type {one.type}" for one in columns if uses_dictionary(one.type)), None)

    @property
    def counted(self) -> bool:
        """Returns True if the base tables count the tuples."""
        return self._gate > 0

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a row takes."""
        return int(kernels.words_of_rows(self.width))

    @property
    def fixed(self) -> int:
        """Returns how many more words of the memory of a run are needed."""
        return self.width + AHEAD

    @property
    def texts(self) -> bytes:
        """Returns the texts that the conditions of the scan name."""
        return b"" if self.scan is None else self.scan.texts.tobytes()

    def words(self, at: int, texts: int) -> tuple[list[int], np.ndarray]:
        """Returns the words of the source in a plan, and what they point to, which is at word ``at`` there; its texts
        are at byte ``texts`` of all texts. A source of which no batch came yet has no scan."""
        plan, most = (np.zeros(0, np.int64), 0) if self.scan is None else (self.scan.plan, self.scan.most)
        found = [0] * kernels.SOURCE
        found[kernels.C_SCAN], found[kernels.C_TEXTS], found[kernels.C_MOST] = at, texts, most
        found[kernels.C_WIDTH], found[kernels.C_NETS] = self.width, self._nets
        found[kernels.C_GATE], found[kernels.C_CLAMPS] = self._gate, self._clamps
        return found, plan

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


class Take:
    """What a join stores of source number ``source``: these of its columns (``places``, all of them if ``moves`` is
    False), of the rows for which all ``tests`` hold.

    ``record``: its descriptor; ``nets``: it is netted; ``asks``: it says what deletes find; ``joined``: columns of it
    that must not be NULL; ``tallies``: of each alias what counts the tuples that it reads, and those rejected;
    ``summed``: only sums of its rows are kept.
    """

    def __init__(
        self, source: int, places: Sequence[int], moves: bool, tests: Sequence[Test], columns: Sequence[str],
        record: int, nets: bool, asks: bool, joined: Sequence[int], tallies: Sequence[int], summed: bool,
    ) -> None:  # fmt: skip
        self.source = source
        self._places, self._joined, self._tallies = places, joined, tallies
        self._tests, self._columns = tests, columns
        self._fixed = (moves, record, nets, asks, summed)

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a row of its source takes."""
        return int(tree.words_of_rows(len(self._places)))

    def words(self, at: int) -> tuple[list[int], np.ndarray]:
        """Returns the words in a plan, and what they point to, which is at word ``at`` there."""
        moves, record, nets, asks, summed = self._fixed
        lists, tests = [*self._places, *self._joined, *self._tallies], list[int]()
        tests_at = at + len(lists)
        values, values_at = list[int](), tests_at + scan.TEST * len(self._tests)
        for test in self._tests:
            low, high = test.low, test.high
            if test.kind == scan.ONE_OF:
                low, high = values_at + len(values), len(test.words)
                values += test.words
            elif test.other:
                low = self._columns.index(test.other)
            tests += [test.kind, self._columns.index(test.column), 0, low, high, -int(test.negated)]
        found = [0] * tree.TAKE
        found[tree.D_SOURCE], found[tree.D_RECORD], found[tree.D_ASKS] = self.source, record, asks
        found[tree.D_WIDTH], found[tree.D_WORD0] = len(self._places), at
        found[tree.D_MOVES], found[tree.D_NETS], found[tree.D_SUMMED] = moves, nets, summed
        found[tree.D_TESTS], found[tree.D_TEST0] = len(self._tests), tests_at
        found[tree.D_JOINED], found[tree.D_JOINED0] = len(self._joined), at + len(self._places)
        found[tree.D_ALIASES], found[tree.D_ALIAS0] = (
            len(self._tallies) // 2,
            at + len(self._places) + len(self._joined),
        )
        return found, np.array([*lists, *tests, *values], np.int64)
