"""Reads the inputs of a stage: rows of a relation or of an earlier stage, filtered, with computed columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crown.expressions.program import Program, is_native, is_wide, native
from crown.results.columns import Frame, Projection
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.programs.exploded import EXPLODE, exploded_column
from plans.programs.stages import Feed
from plans.schema import Column


class Fed(NamedTuple):
    """How a kernel makes the rows that enter.

    ``program``: what it evaluates, of the rows of the source, whose columns are ``reads``; its first output says which
    of them enter, if ``chooses``, else all do. ``columns``: each is a column of the source, or a word of the outputs,
    counted from -1 down; ``wide``: those of two words.
    """

    columns: tuple[int, ...]
    program: Program | None = None
    reads: tuple[int, ...] = ()
    chooses: bool = False
    wide: frozenset[int] = frozenset()


class Reader:
    """Reads the nets of a feed's source with the columns ``source``. Stateless.

    ``keeps_apart``: all rows enter, and different rows stay different. ``places``: the positions of the columns in the
    source's rows if all rows enter unchanged, else None.
    """

    def __init__(self, feed: Feed, source: Sequence[Column], dictionary: Dictionary) -> None:
        self.feed = feed
        self.columns = tuple(Column(output.name, output.type) for output in feed.columns)
        self._dictionary = dictionary
        self._given = {column.name: (i, column.type) for i, column in enumerate(source)}
        self._exploded = exploded_column(feed)
        outputs = [o if o.expr.op != EXPLODE or self._exploded is None else self._exploded for o in feed.columns]
        self._projection = Projection(outputs, {column.name: column.type for column in source}, self._given)
        self._passes = feed.where is None and self._projection.passes and self._exploded is None  # without decoding
        self._words = [self._given[column][0] for column in self._projection.plain.values()]
        self.places = {name: at for name, (at, _) in self._projection.places.items()} if self._passes else None
        self.keeps_apart = self._passes and set(self._words) == set(range(len(source)))

    def fed(self, names: Sequence[str]) -> Fed | str:
        """Returns how a kernel makes these columns of the rows that enter, or why it cannot."""
        where, projection = self.feed.where, self._projection
        if self.feed.weight != 1 or self._exploded is not None:
            return "rows are read several times"
        exprs = {output.name: output.expr for output in self.feed.columns}
        exprs_read = ([] if where is None else [where]) + [exprs[name] for name, _, _ in projection.computed]
        unsupported = next((part for part in exprs_read if not is_native(part)), None)
        if unsupported is not None or projection.computed:
            return f"{unsupported or exprs_read[-1]} has no native form"
        evaluated = [name for name in projection.fast if name in names]
        program = native((*([] if where is None else [where]), *(exprs[name] for name in evaluated)))
        assert program is not None, "each of them has a native form"
        place, places = -1, dict[str, int]()
        if where is not None:
            place -= 1
        for name in evaluated:
            places[name] = place
            place -= 2 if is_wide(exprs[name].type) else 1
        columns = tuple(places[n] if n in places else self._given[projection.plain[n]][0] for n in names)
        wide = frozenset(i for i, n in enumerate(names) if n in places and is_wide(exprs[n].type))
        if not program.types:
            return Fed(columns)
        reads = tuple(self._given[name][0] for name, _ in program.reads)
        return Fed(columns, program, reads, where is not None, wide)

    def weights(self, net: Zset) -> np.ndarray:
        """Returns the weights (int64[n]) of the rows of a net in the feed, if all rows enter."""
        return net.weights if self.feed.weight == 1 else net.weights * self.feed.weight

    def frame(self, net: Zset) -> tuple[Frame, np.ndarray]:
        """Returns the columns of the rows that enter, and their weights (int64[n]). O(net)."""
        weights = self.weights(net)
        if self._passes:
            return Frame.of(net, self._projection.places, self._dictionary), weights
        frame = Frame.of(net, self._given, self._dictionary)
        if self.feed.where is not None:
            keep = frame.holds(self.feed.where)
            if not keep.all():
                frame, weights = frame.chosen(keep), weights[keep]
        found = frame.projected(self._projection)
        if self._exploded is None:
            return found, weights
        made, rows = found.exploded(next(o for o in self.feed.columns if o.name == self._exploded.name))
        return made, weights[rows]

    def zset(self, net: Zset) -> Zset:
        """Returns the rows that enter, in codes. Equal rows are not summed. O(net)."""
        if self._passes:
            rows = net.project(self._words)
            return rows if self.feed.weight == 1 else Zset(rows.rows, rows.weights * self.feed.weight)
        frame, weights = self.frame(net)
        return Zset.of_columns(frame.matrix(self._projection.names), weights)


def readers(feeds: Sequence[Feed], sources: Sequence[Sequence[Column]], dictionary: Dictionary) -> list[Reader]:
    """Returns the readers of several feeds, whose sources have these columns."""
    return [Reader(feed, source, dictionary) for feed, source in zip(feeds, sources, strict=True)]
