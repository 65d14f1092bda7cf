"""A batch of a group stage while it is applied: the kernel's inputs, and buffers for its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.kernels.batches import extent
from crown.results.columns import Frame, NativeFeed
from crown.stages.feeds import Reader
from crown.stages.groups.addends import Addends
from crown.stages.groups.far import Far
from crown.stages.groups.form import Form, Outputs
from crown.stages.groups.multisets import NativeValues
from crown.stages.groups.readings import Reading
from crown.stages.groups.terms import Placed
from crown.stages.kernels.groups import batch as kernels
from crown.store.zset import Zset

NOTHING, NO_FLAGS = np.empty(0, np.int64), np.empty(0, np.bool_)
_KEPT = 1 << 17  # words of room that stay allocated between batches


class Batch:
    """A batch of ``nets``: the arguments of ``kernels.change``, and the data that Python computes for the kernel.

    Fields are filled in as they become known. ``frames``: the events of each feed with their weights, if needed.
    ``far``: the changes of far parts. ``status``: the last result of the kernel.
    """

    def __init__(
        self, nets: Sequence[Zset], weights: np.ndarray, inputs: np.ndarray, forms: np.ndarray, pairs: np.ndarray,
        strides: np.ndarray, form: Form, width: int,
    ) -> None:  # fmt: skip
        self.nets = nets
        self.weights = weights
        self.inputs = self.keys = inputs
        self.forms = forms
        self.pairs = pairs
        self.strides = strides
        self.form = form
        self._width = width
        self.state = np.zeros(kernels.STATE_WORDS, np.int64)
        self.status: int = kernels.DONE
        payload = nets[0].payload
        self.payload = weights if payload is None else np.ascontiguousarray(payload).reshape(-1)
        self.passed = NOTHING
        self.numbers = self.handles = self.rows = self.out = NOTHING
        self.having = NO_FLAGS
        self.frames: list[tuple[Frame, np.ndarray]] = []
        self.old_read: dict[Reading, np.ndarray] = {}
        self.far: Far | None = None
        self.new_far: Far | None = None
        self.freed_far: np.ndarray | None = None
        self.changed: Zset | None = None

    @property
    def touched(self) -> np.ndarray:
        """Returns the handles of the batch's groups, by number."""
        return self.handles[: int(self.state[kernels.S_GROUPS])]

    @property
    def both(self) -> np.ndarray:
        """Returns the sums of the groups before the batch, then after it, int64[2 * groups, words]."""
        n = 2 * int(self.state[kernels.S_GROUPS])
        return self.rows[: n * self._width].reshape(n, self._width)

    @property
    def after(self) -> np.ndarray:
        """Returns the sums of the groups after the batch, int64[groups, words]."""
        return self.both[int(self.state[kernels.S_GROUPS]) :]


Started = Callable[[Sequence[Zset]], tuple[Batch, int]]
"""Returns the batch of some nets that another kernel has started, and the result of that kernel."""


class NativeGroups(NamedTuple):
    """The native form of a group stage: the constant arguments of ``kernels.advance``.

    - ``feed``: makes the events from the rows of the source; None if they are the events.
    - ``keys``: the key columns of the events.
    - ``sums``, ``carried``: the recipes of both.
    - ``scratch``: the number of words of scratch.
    - ``values``: stores values in multisets; None if there are none, or Python stores them.
    - ``outputs``: computes columns and HAVING; None if there are none, or Python computes them.
    """

    feed: NativeFeed | None
    plan: np.ndarray
    table: int
    keys: np.ndarray
    sums: np.ndarray
    carried: np.ndarray
    scratch: int
    values: NativeValues | None
    outputs: Outputs | None


class Entry:
    """Prepares the events of the first feed: sums of ``terms`` of their groups, which are identified by ``keys``.

    ``types``: the types of the columns of feeds. ``key_rows``: the positions of the keys in the inputs.
    """

    def __init__(self, reader: Reader, keys: Sequence[str], terms: Sequence[Placed], types: Mapping[str, str]) -> None:
        self._reader = reader
        read = Addends(terms, types).reads
        self._reads = [*((name, False) for name in keys), *read]
        places = reader.places
        if places is None:  # the inputs are a new matrix of all columns that are read
            places = {name: len(keys) + i for i, (name, _) in enumerate(read)}
            key_rows = list(range(len(keys)))
        else:  # the inputs are the rows
            key_rows = [places[name] for name in keys]
        self.sums = Addends(terms, types, places)
        self.key_rows = np.array(key_rows, np.int64)
        self._forms = np.zeros((1 + max(places.values(), default=0), 2), np.int64)
        self._forms[:, 1] = np.arange(len(self._forms))
        for name, wide in read:
            self._forms[places[name], 0] = CODES if wide else WORDS

    def native_feed(self, more: Sequence[str]) -> tuple[NativeFeed | str | None, Mapping[str, int]]:
        """Returns how a kernel makes the events with the columns ``more``, and the positions of columns in them.

        Instead of how: None if the rows of the source are the events, or why no kernel makes them.
        """
        if self._reader.places is not None:
            return None, self._reader.places
        names = [name for name, _ in self._reads]
        names += [name for name in more if name not in names]
        return self._reader.native_feed(names), {name: names.index(name) for name in names}

    def new_batch(self, nets: Sequence[Zset], form: Form, width: int) -> Batch:
        """Returns a batch that has not started. ``width``: the number of words of a group's sums."""
        net, reader = nets[0], self._reader
        if reader.places is not None:
            weights, inputs = reader.weights(net), np.ascontiguousarray(net.columns()).reshape(-1)
            n = len(weights)
            forms = (self._forms * (1, n)).reshape(-1)
            return Batch(nets, weights, inputs, forms, NOTHING, self.key_rows * n, form, width)
        frame, weights = reader.frame(net)
        inputs, forms, pairs = frame.inputs(self._reads)
        strides = self.key_rows * len(weights)
        batch = Batch(nets, weights, np.ascontiguousarray(inputs).reshape(-1), forms, pairs, strides, form, width)
        batch.frames.append((frame, weights))
        return batch


class Room:
    """Allocates room for the groups of a batch: twice ``width`` words of sums, and two rows of ``columns`` with a
    weight."""

    def __init__(self, width: int, columns: int) -> None:
        self._sum_words, self._row_words = 2 * width, 2 * (columns + 1)
        self._kept = NOTHING

    def give(self, batch: Batch, groups: int | None = None) -> None:
        """Allocates room for ``groups`` groups in a batch. If the number is unknown, uses the room of the last
        batch."""
        n = min(len(batch.handles), len(self._kept) // self._sum_words) if groups is None else groups
        words = n * self._sum_words
        if len(self._kept) < words:
            self._kept = np.empty(words, np.int64)
        batch.rows, batch.out = self._kept[:words], np.empty(n * self._row_words, np.int64)
        if words > _KEPT:
            self._kept = NOTHING


def wrong_count(weights: np.ndarray, counts: np.ndarray) -> tuple[int, str] | None:
    """Returns the first group whose number of rows is out of range after a batch with these ``weights``, with the
    reason. Returns None if all ``counts`` (int64[groups]) are in range."""
    if not len(counts):
        return None
    low, high = extent(np.ascontiguousarray(counts))
    if low < 0:
        wrong = int(counts.argmin())
        return wrong, f"{counts[wrong]} rows: the batch deletes rows that do not exist"
    least, most = extent(weights) if len(weights) else (0, 0)
    if len(weights) * max(-least, most) + high <= kernels.MAX_ROWS:
        return None
    beyond = np.abs(weights).sum(dtype=np.float64) + float(high) > kernels.MAX_ROWS
    return (int(counts.argmax()), "more than 2^62 rows") if beyond else None
