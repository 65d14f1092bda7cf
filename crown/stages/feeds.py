"""What enters a stage: rows of a relation or of an earlier stage, filtered, as computed columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.stages.columns import Frame, matrix
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.plan import Output
from plans.program import Feed
from plans.schema import Column


class Reader:
    """Reads the nets of a feed's source, whose columns are ``source``. It has no state."""

    def __init__(self, feed: Feed, source: Sequence[Column], dictionary: Dictionary) -> None:
        self.feed = feed
        self.columns = tuple(Column(output.name, output.type) for output in feed.columns)
        self._source = tuple(source)
        self._dictionary = dictionary
        self._plain = _plain(feed.columns, self._source)

    def frame(self, net: Zset) -> tuple[Frame, np.ndarray]:
        """Returns the columns of the rows that enter, and their weights (int64[n]). O(net)."""
        weights = net.weights if self.feed.weight == 1 else net.weights * self.feed.weight
        if self._plain is not None and self.feed.where is None:
            return Frame.of(net, self.columns, self._dictionary, self._plain), weights
        frame = Frame.of(net, self._source, self._dictionary)
        if self.feed.where is not None:
            keep = frame.holds(self.feed.where)
            if not keep.all():
                frame, weights = frame.chosen(keep), weights[keep]
        made = frame.computed(self.feed.columns)
        named = {column.name: values for column, values in zip(self.columns, made, strict=True)}
        return Frame(named, frame.n, self._dictionary), weights

    def zset(self, net: Zset) -> Zset:
        """Returns the rows that enter, in codes; equal ones are not summed. O(net)."""
        if self._plain is not None and self.feed.where is None:
            rows = net.project(self._plain)
            return rows if self.feed.weight == 1 else Zset(rows.rows, rows.weights * self.feed.weight)
        frame, weights = self.frame(net)
        return Zset.of_columns(matrix(list(frame.columns.values()), frame.n), weights)


def readers(feeds: Sequence[Feed], sources: Sequence[Sequence[Column]], dictionary: Dictionary) -> list[Reader]:
    """Returns the readers of several feeds, whose sources have these columns."""
    return [Reader(feed, source, dictionary) for feed, source in zip(feeds, sources, strict=True)]


def _plain(outputs: Sequence[Output], source: Sequence[Column]) -> tuple[int, ...] | None:
    """Returns the positions of the outputs among the source's columns, if they are all plain."""
    place = {column.name: i for i, column in enumerate(source)}
    found = []
    for output in outputs:
        at = place.get(output.expr.value, -1) if output.expr.op == "col" else -1
        if at < 0 or source[at].type != output.type:
            return None
        found.append(at)
    return tuple(found)
