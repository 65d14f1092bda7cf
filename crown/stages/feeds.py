"""Reads the inputs of a stage: rows of a relation or of an earlier stage, filtered, with computed columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.results.columns import Frame, NativeFeed, Projection
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.programs.stages import EXPLODE, Feed, exploded_column
from plans.schema import Column


class Reader:
    """Reads the nets of a feed's source with the columns ``source``. Stateless.

    ``injective``: all rows enter, and distinct rows stay distinct. ``places``: the positions of the columns in the
    source's rows if all rows enter unchanged, else None.
    """

    def __init__(self, feed: Feed, source: Sequence[Column], dictionary: Dictionary) -> None:
        self.feed = feed
        self.columns = tuple(Column(output.name, output.type) for output in feed.columns)
        self._dictionary = dictionary
        self._source_columns = {column.name: (i, column.type) for i, column in enumerate(source)}
        self._exploded = exploded_column(feed)
        outputs = [o if o.expr.op != EXPLODE or self._exploded is None else self._exploded for o in feed.columns]
        self._projection = Projection(outputs, {column.name: column.type for column in source}, self._source_columns)
        self._passes_all = feed.where is None and self._projection.passes and self._exploded is None  # without decoding
        self._positions = [self._source_columns[column][0] for column in self._projection.plain.values()]
        self.places = {name: at for name, (at, _) in self._projection.places.items()} if self._passes_all else None
        self.injective = self._passes_all and set(self._positions) == set(range(len(source)))

    def native_feed(self, names: Sequence[str]) -> NativeFeed | str:
        """Returns the native form of these columns of the rows that enter, or why there is none."""
        where = self.feed.where
        if self._exploded is not None:
            return "a row enters once for each element of an array"
        return self._projection.native_feed(names, self._source_columns, () if where is None else (where,))

    def weights(self, net: Zset) -> np.ndarray:
        """Returns the weights (int64[n]) of the rows of a net in the feed, if all rows enter."""
        return net.weights if self.feed.weight == 1 else net.weights * self.feed.weight

    def frame(self, net: Zset) -> tuple[Frame, np.ndarray]:
        """Returns the columns of the rows that enter, and their weights (int64[n]). O(net)."""
        weights = self.weights(net)
        if self._passes_all:
            return Frame.of(net, self._projection.places, self._dictionary), weights
        frame = Frame.of(net, self._source_columns, self._dictionary)
        if self.feed.where is not None:
            keep = frame.holds(self.feed.where)
            if not keep.all():
                frame, weights = frame.chosen(keep), weights[keep]
        projected = frame.projected(self._projection)
        if self._exploded is None:
            return projected, weights
        exploded, rows = projected.exploded(next(o for o in self.feed.columns if o.name == self._exploded.name))
        return exploded, weights[rows]

    def zset(self, net: Zset) -> Zset:
        """Returns the rows that enter, in codes. Equal rows are not summed. O(net)."""
        if self._passes_all:
            rows = net.project(self._positions)
            return rows if self.feed.weight == 1 else Zset(rows.rows, rows.weights * self.feed.weight)
        frame, weights = self.frame(net)
        return Zset.of_columns(frame.matrix(self._projection.names), weights)


def readers(feeds: Sequence[Feed], sources: Sequence[Sequence[Column]], dictionary: Dictionary) -> list[Reader]:
    """Returns the readers of several feeds, whose sources have these columns."""
    return [Reader(feed, source, dictionary) for feed, source in zip(feeds, sources, strict=True)]


def native_feeds(readers: Sequence[Reader]) -> Sequence[NativeFeed] | str:
    """Returns the native form of each feed, or why one has none."""
    feeds = [reader.native_feed([column.name for column in reader.columns]) for reader in readers]
    return next((why for why in feeds if isinstance(why, str)), [feed for feed in feeds if not isinstance(feed, str)])
