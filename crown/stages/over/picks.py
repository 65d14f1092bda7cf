"""LAG, LEAD and other functions that pick a row relative to their own (see ``crown.stages.kernels.over.picks``), and
those that read frames, if kernels compute them (see ``crown.stages.kernels.frames.plan``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crown.stages.kernels.frames.plan import FRAME_COUNT, ROOM
from crown.stages.kernels.over import picks as kernels
from crown.stages.kernels.over.stretches import REFUSED, replace_stretches
from crown.stages.over.framed import NO_FRAMES
from crown.stages.over.stretches import Affected
from crown.stages.over.sums import Sums
from crown.stages.running.values import NotShort
from crown.stages.trees import Partitions
from plans.programs.frames import NEIGHBOURS, SESSIONS, WindowFunction

_ALL_ROWS = 1 << 40  # more rows than a partition has


class Picks:
    """The ``functions`` of a stage that pick rows of its ``trees``, each with the position of its output column.

    ``place``: the positions of the columns of the rows. Functions that pick the same row search for it once. ``words``:
    the picks, and ``outputs``: what they write (see ``crown.stages.kernels.over.picks``). ``frames``: the plan of the
    functions that read frames (see ``crown.stages.over.framed``).
    """

    def __init__(
        self,
        functions: Sequence[tuple[int, WindowFunction]],
        place: Mapping[str, int],
        sums: Sums,
        trees: Partitions,
        frames: np.ndarray,
    ) -> None:
        self._trees = trees
        self.frames = frames
        self._memory = np.zeros(int(frames[ROOM]), np.int64)
        groups: dict[WindowFunction, list[tuple[int, WindowFunction]]] = {}
        for column, call in functions:
            groups.setdefault(call.seen, []).append((column, call))
        picks: list[int] = []
        outputs: list[int] = []
        for key, members in groups.items():
            first = len(outputs)
            for column, call in members:
                outputs += [place[call.arguments[0]], -1 if call.default is None else place[call.default], column]
            where = 0 if key.where is None else place[key.where]
            word = sums.opening if key.function in SESSIONS else -1 if key.where is None else sums.counts[key.where]
            picks += [*_kind_shift_count(key), word, where, first, len(outputs)]
        self.words = np.array(picks, np.int64).reshape(-1, kernels.PICK_WORDS)
        self.outputs = np.array(outputs, np.int64)

    def __bool__(self) -> bool:
        return bool(len(self.words) or self.frames[FRAME_COUNT])

    def widen(self, places: np.ndarray, keys: np.ndarray, changes: np.ndarray, order: np.ndarray) -> None:
        """Widens the intervals of ``places`` (see ``kernels.widen_places``) to the rows that changes can affect."""
        trees = self._trees
        kernels.widen_places(
            trees.part.arena, trees.k, trees.spec, trees.strides(len(order)), trees.shape, trees.unsummed,
            self.words.reshape(-1), self.frames, trees.session, keys, changes, order, *trees.part.dictionary.memory,
            trees.path, self._memory, places,
        )  # fmt: skip

    def write(
        self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray, visible: int, out: np.ndarray, framed: bool
    ) -> None:
        """Writes the picked values of the rows at positions ``lows`` to ``highs`` of partitions to their columns of
        ``out``, the first ``visible`` columns of these rows, and the functions that read frames, if ``framed``. Raises
        NotShort if only Python computes some value."""
        trees = self._trees
        complete = kernels.write_picks(
            trees.part.arena, trees.k, trees.spec, trees.shape, trees.unsummed, self.words.reshape(-1), self.outputs,
            self.frames if framed else NO_FRAMES, handles, lows, highs, *trees.part.dictionary.memory, visible,
            trees.path, self._memory, out,
        )  # fmt: skip
        if not complete:
            raise NotShort

    def replace_stretches(
        self,
        affected: Affected,
        keys: np.ndarray,
        weights: np.ndarray,
        sums: np.ndarray,
        visible: int,
        columns: int,
        done: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Applies changes of rows, with their ``sums``, in the order of ``affected``. Returns the stage's rows in all
        stretches before and after the changes, codes, int64[columns, n], and their weights: -1 for old rows, 1 for new
        ones. Raises the errors of ``Partitions.change``, and NotShort if only Python computes some value."""
        trees, n = self._trees, len(weights)
        (_, lows, highs), (_, new_lows, new_highs) = affected.old, affected.new
        rows = int((highs - lows).sum() + (new_highs - new_lows).sum())
        out, progress = np.empty((columns + 1, rows), np.int64), np.zeros(2, np.int64)

        def step() -> int:
            result = int(
                replace_stretches(
                    trees.part.arena, trees.table, trees.keyed(n), trees.k, trees.spec, trees.strides(n), trees.shape,
                    trees.unsummed, trees.session, self.words.reshape(-1), self.outputs, self.frames, visible, keys,
                    weights, sums, affected.spans, affected.leaves, *trees.part.dictionary.memory, trees.path,
                    self._memory, progress, done, out,
                )
            )  # fmt: skip
            if result == REFUSED:
                raise NotShort
            return result

        trees.run_until_done(step, "below a window function")
        return out[:-1], out[-1]


def _kind_shift_count(call: WindowFunction) -> tuple[int, int, int]:
    """Returns the kind, shift and count of a pick (see ``crown.stages.kernels.over.picks``)."""
    if call.function in SESSIONS:
        return (kernels.START if call.function == "session_start" else kernels.END), 0, 1
    if call.function in NEIGHBOURS:
        return (kernels.BACK if call.function == "lag" else kernels.AHEAD), min(call.count, _ALL_ROWS), 1
    assert call.frame is not None, "it picks a row of its frame"
    last = call.function == "last_value"
    bound = call.frame.end if last else call.frame.start
    assert bound is not None, "it counts from its own row"
    shift = min(max(int(-bound if last else bound), -_ALL_ROWS), _ALL_ROWS)
    return (kernels.BACK if last else kernels.AHEAD), shift, min(max(call.count, 1), _ALL_ROWS)
