"""Sources of a native call: the relations of a program, and how their batches are scanned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.ingest.batch import CountedPart
from crown.ingest.tables.given import Scan
from crown.programs.kernels import sources as kernels
from crown.programs.kernels.blocks import B_CODES, B_COPIES_BEFORE, B_COUNTED, B_NULLS, B_TUPLES, B_WEIGHTS
from crown.programs.pipelines.feeds import FeedOperator
from crown.programs.pipelines.plan import Plan
from crown.stages.kernels.prefetch import AHEAD
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.schema import Column

_TEXT_TYPES = ("string", "binary")  # types whose values a call enters in the dictionary


class Source:
    """Relation ``name`` (in lower case), whose batches are scanned. ``columns``: those that the program reads.

    - ``gate``: the table of the base tables that counts its tuples, and True if no count falls below 0; None if no
      table counts them.
    - ``nets``: True if its tuples are netted.
    - ``counters``: the words of the base tables that count its changes (0 for none), and its rows that no stage reads.
    - ``condition``: the feed that tests the conditions that no scan tests.
    - ``text_columns``: the columns whose values a call enters in the dictionary.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[Column],
        gate: tuple[int, bool] | None,
        nets: bool,
        counters: tuple[int, int],
        condition: FeedOperator | None = None,
    ) -> None:
        self.name = name
        self.width = len(columns)
        self.text_columns = [i for i, column in enumerate(columns) if column.type in _TEXT_TYPES]
        self.scan: Scan | None = None
        self._table, self._clamps = (0, False) if gate is None else gate
        self._nets, self._counters = nets, counters
        self.condition = condition

    @staticmethod
    def why_not_scanned(columns: Sequence[Column]) -> str | None:
        """Returns why a call cannot scan rows with these columns, or None if it can."""
        if not columns:
            return "no column of it is read"
        unsupported = (one for one in columns if uses_dictionary(one.type) and one.type not in _TEXT_TYPES)
        return next((f"column {one.name} has type {one.type}" for one in unsupported), None)

    @property
    def is_counted(self) -> bool:
        """Returns True if a base table counts its tuples."""
        return self._table > 0

    @property
    def words_per_row(self) -> int:
        """Returns how many words of the memory a row takes."""
        condition = 0 if self.condition is None else self.condition.words_per_tuple
        return int(kernels.words_per_row(self.width)) + condition

    @property
    def fixed_words(self) -> int:
        """Returns how many more words of the memory are needed."""
        return 3 * self.width + AHEAD + (0 if self.condition is None else self.condition.fixed_words)

    def plan_words(self, plan: Plan) -> list[int]:
        """Returns its words in a plan. Adds to the plan what they point to.

        Before the first batch there is no scan.
        """
        words = [0] * kernels.SOURCE_WORDS
        if self.scan is not None:
            words[kernels.S_SCAN_AT], words[kernels.S_MAX_WEIGHT] = plan.add(self.scan.plan), self.scan.most
            words[kernels.S_TEXTS_START] = plan.add_bytes(self.scan.texts.tobytes())
        words[kernels.S_WIDTH], words[kernels.S_NETS] = self.width, self._nets
        words[kernels.S_TABLE], words[kernels.S_CLAMPS] = self._table, self._clamps
        words[kernels.S_FILTER_AT] = 0 if self.condition is None else plan.add(self.condition.plan_words(plan))
        words[kernels.S_TEXT_COLUMN_COUNT] = len(self.text_columns)
        words[kernels.S_TEXT_COLUMNS_AT] = plan.add(self.text_columns)
        words[kernels.S_UPDATES], words[kernels.S_FILTERED] = self._counters
        return words

    def net(self, memory: np.ndarray, state: Sequence[int], block: int) -> Zset:
        """Returns the net of the last batch, whose block begins at ``state[block]``."""
        n, width = state[block + B_TUPLES], self.width
        codes, weights = state[block + B_CODES], state[block + B_WEIGHTS]
        columns = memory[codes : codes + n * width].reshape(width, n).copy()
        return Zset(columns.T, memory[weights : weights + n].copy(), nulls=bool(state[block + B_NULLS]))

    def counted_part(self, memory: np.ndarray, state: Sequence[int], block: int) -> CountedPart:
        """Returns which part of the net its base table has counted."""
        before, n = state[block + B_COPIES_BEFORE], state[block + B_TUPLES]
        return CountedPart(state[block + B_COUNTED], memory[before : before + n].copy())
