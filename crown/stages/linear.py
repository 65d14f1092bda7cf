"""Linear stages: UNION ALL, projection, selection, padding with NULLs. They have no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from crown.results.columns import NativeFeed
from crown.stages.feeds import native_feeds, readers
from crown.stages.protocol import Stage
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.programs.stages import EXPLODE, LinearStage
from plans.schema import Column


def keeps_distinct(stage: LinearStage, source: Sequence[Column]) -> bool:
    """Returns True if different rows of the only term stay different and single, so that the image of a net is a
    net."""
    if len(stage.terms) != 1 or abs(stage.terms[0].weight) != 1:
        return False
    exprs = [output.expr for output in stage.terms[0].columns]
    if any(expr.op == EXPLODE for expr in exprs):
        return False
    return {column.name for column in source} <= {expr.value for expr in exprs if expr.op == "col"}


class Linear(Stage):
    """Runs a linear stage. ``sources``: the columns that each term reads.

    It recomputes its rows from its sources, since it stores none. ``netted``: its rows need no netting, because they
    are net already, or the stage that reads them nets them or sums them.
    """

    def __init__(
        self,
        stage: LinearStage,
        sources: Sequence[Sequence[Column]],
        dictionary: Dictionary,
        netted: bool = False,
    ) -> None:
        self.stage = stage
        self.netted = netted
        self.inputs = tuple(term.source for term in stage.terms)
        self._readers = readers(stage.terms, sources, dictionary)
        self.columns = self._readers[0].columns if self._readers else ()
        self.parts: tuple[np.ndarray, ...] = ()

    def native_feeds(self) -> Sequence[NativeFeed] | str:
        """Returns how a kernel makes the rows of each term, or why it cannot."""
        return native_feeds(self._readers)

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(rows)."""
        rows = [reader.zset(net) for reader, net in zip(self._readers, nets, strict=True)]
        found = Zset.gathered(rows, len(self.columns))
        return found if self.netted else found.net()

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(rows of the sources). Yields one block if a term is subtracted."""
        blocks = (reader.zset(net) for reader, nets in zip(self._readers, sources, strict=True) for net in nets)
        if all(term.weight > 0 for term in self.stage.terms):
            yield from blocks
        else:
            yield Zset.gathered(list(blocks), len(self.columns)).net()

    def mark_values(self) -> None:
        """Does nothing: the stage has no state."""

    def check_invariants(self) -> None:
        """Does nothing: the stage has no state."""

    def stats(self) -> dict[str, Any]:
        """Returns nothing: the stage has no state."""
        return {}
