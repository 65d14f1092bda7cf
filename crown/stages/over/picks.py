"""LAG, LEAD and other functions that pick a row relative to their own (see ``crown.stages.kernels.over.picks``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crown.stages.kernels.over import picks as kernels
from crown.stages.kernels.over.replaced import replaced
from crown.stages.over.sums import Sums
from crown.stages.over.touched import Touched
from crown.stages.trees import Partitions
from plans.programs.frames import NEIGHBOURS, SESSIONS, WindowFunction

_EVERY = 1 << 40  # more rows than there are


class Picks:
    """The ``functions`` of a stage that pick rows, each with the column of the stage that it is, in its ``trees``.

    ``place``: the columns of the rows. Functions that see the same row find it once.
    """

    def __init__(
        self,
        functions: Sequence[tuple[int, WindowFunction]],
        place: Mapping[str, int],
        sums: Sums,
        trees: Partitions,
    ) -> None:
        self._trees = trees
        alike: dict[WindowFunction, list[tuple[int, WindowFunction]]] = {}
        for column, one in functions:
            alike.setdefault(one.seen, []).append((column, one))
        picks: list[int] = []
        outputs: list[int] = []
        for seen, mine in alike.items():
            first = len(outputs)
            for column, one in mine:
                outputs += [place[one.arguments[0]], -1 if one.default is None else place[one.default], column]
            where = 0 if seen.where is None else place[seen.where]
            word = sums.opening if seen.function in SESSIONS else -1 if seen.where is None else sums.counts[seen.where]
            picks += [*_place(seen), word, where, first, len(outputs)]
        self._picks, self._outputs = np.array(picks, np.int64), np.array(outputs, np.int64)

    def __bool__(self) -> bool:
        return bool(len(self._picks))

    def widen(self, places: np.ndarray, keys: np.ndarray, changes: np.ndarray, order: np.ndarray) -> None:
        """Widens the intervals of ``places`` (see ``kernels.reached``) to what changes of rows can change."""
        trees = self._trees
        kernels.reached(
            trees.part.arena, trees.k, trees.shape, trees.unsummed, self._picks, trees.session, keys, changes, order,
            trees.path, places,
        )  # fmt: skip

    def write(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray, shown: int, out: np.ndarray) -> None:
        """Writes what is picked for the rows at positions ``lows`` to ``highs`` of partitions into the columns of
        ``out``, and the first ``shown`` columns of these rows."""
        trees = self._trees
        kernels.picked(
            trees.part.arena, trees.k, trees.shape, trees.unsummed, self._picks, self._outputs, handles, lows, highs,
            shown, trees.path, out,
        )  # fmt: skip

    def replaced(
        self,
        touched: Touched,
        keys: np.ndarray,
        weights: np.ndarray,
        sums: np.ndarray,
        shown: int,
        columns: int,
        done: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Makes changes of rows, with their ``sums``, sorted as they are ``touched``. Returns the stage's rows in all
        stretches before and after, codes, int64[columns, n], and -1 or 1 for each. Raises as ``Partitions.change``
        does."""
        trees, n = self._trees, len(weights)
        (_, lows, highs), (_, new_lows, new_highs) = touched.old, touched.new
        rows = int((highs - lows).sum() + (new_highs - new_lows).sum())
        out, progress = np.empty((columns + 1, rows), np.int64), np.zeros(2, np.int64)

        def step() -> int:
            return int(
                replaced(
                    trees.part.arena, trees.table, trees.keyed(n), trees.k, trees.spec, trees.strides(n), trees.shape,
                    trees.unsummed, trees.session, self._picks, self._outputs, shown, keys, weights, sums,
                    touched.spans, touched.leaves, *trees.part.dictionary.memory, trees.path, progress, done, out,
                )
            )  # fmt: skip

        trees.run_until_done(step, "below a window function")
        return out[:-1], out[-1]


def _place(one: WindowFunction) -> tuple[int, int, int]:
    """Returns kind, shift and count of a pick."""
    if one.function in SESSIONS:
        return (kernels.START if one.function == "session_start" else kernels.END), 0, 1
    if one.function in NEIGHBOURS:
        return (kernels.BACK if one.function == "lag" else kernels.AHEAD), min(one.count, _EVERY), 1
    assert one.frame is not None, "it picks a row of its frame"
    last = one.function == "last_value"
    near = one.frame.end if last else one.frame.start
    assert near is not None, "it counts from its own row"
    shift = min(max(int(-near if last else near), -_EVERY), _EVERY)
    return (kernels.BACK if last else kernels.AHEAD), shift, min(max(one.count, 1), _EVERY)
