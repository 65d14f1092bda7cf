"""DISTINCT, UNION, EXCEPT, INTERSECT, missing keys, and any nest of them: per row a function of multiplicities.

The multiplicity of a row is f(m1, ..., mk), where mi is its multiplicity in leaf i. Each event changes one mi, and the
stage delivers f(after) - f(before). The sum of these differences is independent of the order of events, and no operator
has separate rules for inserts and deletes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from crown.ingest.batch import CountedPart
from crown.results.columns import NativeFeed
from crown.stages.feeds import native_feeds, readers
from crown.stages.kernels import multiplicities as kernels
from crown.stages.protocol import Part, Stage
from crown.stages.tables.counted_tuples import CountedTuples
from crown.store.zset import Zset
from plans.programs.stages import Function, PointwiseStage
from plans.schema import Column

_OPERATORS = {
    "distinct": kernels.DISTINCT,
    "union_all": kernels.UNION_ALL,
    "union": kernels.UNION,
    "except_all": kernels.EXCEPT_ALL,
    "except": kernels.EXCEPT,
    "intersect_all": kernels.INTERSECT_ALL,
    "intersect": kernels.INTERSECT,
}


def postfix(function: Function) -> list[int]:
    """Returns the words of a function (see ``crown.stages.kernels.multiplicities``)."""
    if isinstance(function, int):
        return [function]
    operator, *operands = function
    inner = [word for operand in operands if not isinstance(operand, str) for word in postfix(operand)]
    return [*inner, _OPERATORS[str(operator)]]


class Pointwise(Stage):
    """Runs a pointwise stage. ``sources``: the columns that each leaf reads.

    ``function``: the words of its function. ``netted``: its rows need no netting, since no row has two events in a
    batch. ``started``: the part of the next batch that another kernel has counted.
    """

    def __init__(self, stage: PointwiseStage, sources: Sequence[Sequence[Column]], part: Part) -> None:
        self.stage = stage
        self.inputs = tuple(leaf.source for leaf in stage.leaves)
        self._readers = readers(stage.leaves, sources, part.dictionary)
        self.columns = self._readers[0].columns
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        part.open(1)
        self._counts = CountedTuples(part, 0, len(self.columns), len(stage.leaves))
        self.table = self._counts.table
        self.netted = len(self._readers) == 1 and self._readers[0].injective
        self.function = np.array(postfix(stage.function), np.int64)
        self._stack = np.empty(len(self.function), np.int64)
        self.started: CountedPart | None = None

    def native_feeds(self) -> Sequence[NativeFeed] | str:
        """Returns how a kernel makes the rows of each leaf, or why it cannot."""
        return native_feeds(self._readers)

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(changed rows)."""
        started, self.started = self.started, None
        events, leaf = self._events(nets)
        before = self._counts.add(events, leaf, counted_part=started)
        if self.netted:
            after = before + events.weights[:, None]
        else:
            after = before.copy()
            after[np.arange(len(events)), leaf] += events.weights
        weights = self._multiplicities(after) - self._multiplicities(before)
        changed = Zset(events.rows, weights)[weights != 0]
        return changed if self.netted else changed.net()

    def _multiplicities(self, counts: np.ndarray) -> np.ndarray:
        """Returns the multiplicities of rows with these counts (int64[n, leaves]), int64[n]."""
        out = np.empty(len(counts), np.int64)
        kernels.multiplicities(self.function, counts, self._stack, out)
        return out

    def _events(self, nets: Sequence[Zset]) -> tuple[Zset, np.ndarray]:
        """Returns the rows of all leaves, and each row's leaf (int64[n])."""
        if len(self._readers) == 1:
            return (found := self._readers[0].zset(nets[0])), np.zeros(len(found), np.int64)
        rows = [reader.zset(net) for reader, net in zip(self._readers, nets, strict=True)]
        leaf = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
        return Zset.gathered(rows, len(self.columns)), leaf

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(rows in all leaves)."""
        for rows, counts in self._counts.scan():
            weights = self._multiplicities(counts)
            yield Zset(rows, weights)[weights != 0]

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(leaves)."""
        counts = self._counts.counts_of(Zset(row.reshape(1, -1), np.ones(1, np.int64)))
        return int(self._multiplicities(counts)[0])

    @override
    def mark_values(self) -> None:
        self._part.mark_words(self._counts.table, self.columns)

    @override
    def check_invariants(self) -> None:
        for _, counts in self._counts.scan():
            assert (counts >= 0).all(), "a row has a negative count in a leaf"
            assert counts.any(axis=1).all(), "a row that is in no leaf has a record"

    def check_counts(self, stages: Sequence[Stage]) -> None:
        """Compares the counts with the rows of the stages that the leaves read, if all of these store their rows.
        Raises AssertionError. O(rows of these stages)."""
        below = [stages[source] for source in self.inputs if isinstance(source, int)]
        if len(below) < len(self.inputs) or not all(stage.parts for stage in below):
            return
        expected: Counter[tuple[int, ...]] = Counter()
        for leaf, (reader, stage) in enumerate(zip(self._readers, below, strict=True)):
            for net in map(reader.zset, stage.scan()):
                for row, weight in zip(net.rows.tolist(), net.weights.tolist(), strict=True):
                    expected[leaf, *row] += weight
        stored = {
            (leaf, *row): count
            for rows, counts in self._counts.scan()
            for row, leaf_counts in zip(rows.tolist(), counts.tolist(), strict=True)
            for leaf, count in enumerate(leaf_counts)
            if count
        }
        assert stored == expected, "a row is not as often in a leaf as it is counted"

    def stats(self) -> dict[str, Any]:
        """Returns the number of rows that occur in some leaf."""
        return {"rows": len(self._counts)}
