"""Writes window functions that read frames as a plan of kernels (``crown.stages.kernels.frames.plan``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.stages.groups.addends import Addends
from crown.stages.kernels.frames import plan as kernels
from crown.stages.kernels.frames.values import OTHER_SUMS
from crown.stages.kernels.groups import batch
from crown.stages.kernels.trees.orders import BY_WORD
from crown.stages.orders import order_of
from crown.stages.over.sums import Extremum, Sums, extremum_of
from plans.programs import frames
from plans.programs.frames import PARTITION, RUNNING, Frame, Order, WindowFunction
from plans.schema import Column
from plans.types import in_a_word

NO_FRAMES = np.zeros(kernels.PLAN_WORDS, np.int64)
"""The plan of no function."""
_MAX_ROWS = 1 << 12  # that a frame reaches from its row, in one direction
_MEASURED = 1 << 10  # rows of frames that are measured in values; Python reads more of them
_CHUNK = 1 << 8  # rows whose values are computed together, or as many as frames reach
_SO_FAR = Frame("rows", None, 0)
_PLACES = {
    "row_number": (kernels.NUMBER, _SO_FAR),
    "rank": (kernels.RANK_OF_PEERS, RUNNING),
    "ntile": (kernels.PART, PARTITION),
    "percent_rank": (kernels.SHARE_BEFORE, PARTITION),
    "cume_dist": (kernels.SHARE_UP_TO, PARTITION),
}
"""Functions of places: the kind, and the frame of all rows whose changes can change the value."""
_OF_PEERS = ("rank", "percent_rank", "cume_dist")


class NotFramed(Exception):
    """No kernel computes a window function. The message says why."""


class FramePlan:
    """The plan of functions that read frames of rows with these ``columns``, in an ``order``."""

    def __init__(self, columns: Sequence[Column], order: Sequence[Order], sums: Sums) -> None:
        self._ordered, self._sums, self._width = len(order), sums, len(columns)
        self._types = {column.name: column.type for column in columns}
        one_word = len(order) == 1 and order_of(self._types[order[0].column]) == BY_WORD
        self._measured = order[0].column if one_word else None  # whose values can be moved
        self._words = [0] * kernels.PLAN_WORDS
        self._scratch = 0
        self._summed: set[int] = set()  # words of the sums that functions read
        self._read: list[str] = []  # columns that they read

    def written(self, functions: Sequence[tuple[int, WindowFunction]]) -> np.ndarray:
        """Returns the plan of ``functions``, each with the position of its output column. Raises NotFramed."""
        by_frame: dict[tuple[int, int, int, int, int], list[list[int]]] = {}  # by bounds, and an extremum that flips
        for column, call in functions:
            frame, kind, more = self._described(call)
            start, end = self._bounds(call, frame)
            key = *start, *end, more[0] if call.flips else -1
            by_frame.setdefault(key, []).append([kind, column, call.count, *more])
        words, sums = self._words, self._sums
        offsets = [offset for key in by_frame for unit, offset in (key[:2], key[2:4]) if unit == kernels.ROWS]
        back, ahead = max([0, *(-offset for offset in offsets)]), max([0, *offsets])
        chunk = max(_CHUNK, back + ahead)
        words[kernels.BACK], words[kernels.AHEAD], words[kernels.CHUNK] = back, ahead, chunk
        units = {unit for key in by_frame for unit in key[:3:2]}
        measures = kernels.VALUES in units
        peers = measures or kernels.PEERS in units or any(call.function in _OF_PEERS for _, call in functions)
        words[kernels.PEER_COLUMNS] = self._ordered if peers else -1
        words[kernels.EACH_AT] = self._add(range(self._width))
        self._read += [self._measured] if measures and self._measured is not None else []
        self._write_sums()
        extrema = [(word, *self._extremum(one)) for one, word in sums.extrema.items()]
        words[kernels.EXTREMA_COUNT], words[kernels.EXTREMA_AT] = len(extrema), self._add_all(extrema)
        flips_at = {one[0]: words[kernels.EXTREMA_AT] + i * len(one) for i, one in enumerate(extrema)}
        listed, first = [], 0
        for key, members in by_frame.items():
            summed = any(member[0] == kernels.SUM for member in members)
            listed.append([*key[:4], first, first + len(members), int(summed), flips_at.get(key[4], 0)])
            first += len(members)
        words[kernels.FRAME_COUNT], words[kernels.FRAMES_AT] = len(by_frame), self._add_all(listed)
        members = [one + [0] * (kernels.FUNCTION_WORDS - len(one)) for ones in by_frame.values() for one in ones]
        words[kernels.FUNCTIONS_AT] = self._add_all(members)
        reads = [sums.place[name] for name in dict.fromkeys(self._read)]
        words[kernels.READ_COUNT], words[kernels.READS_AT] = len(reads), self._add(reads)
        rows, k = chunk + back + ahead + (_MEASURED if measures else 0), sums.words
        words[kernels.MEASURES], words[kernels.SPAN] = int(measures), rows
        words[kernels.ROOM] = kernels.KEY + (1 + OTHER_SUMS) * k + 3 * self._width + self._scratch
        words[kernels.ROOM] += rows * (k + len(reads) + 5) + chunk * (6 + k)
        return np.array(words, np.int64)

    def _bounds(self, call: WindowFunction, frame: Frame) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns the bounds of a frame: the unit of each, and the distance. Raises NotFramed."""
        start, end = _bound(call, frame, frame.start), _bound(call, frame, frame.end)
        units = {start[0], end[0]}
        if kernels.VALUES in units or units == {kernels.PEERS}:  # no tree has the sums up to distant peers
            if self._measured is None:
                raise NotFramed(_refused(call))
            start, end = ((kernels.VALUES if unit == kernels.PEERS else unit, by) for unit, by in (start, end))
        return start, end

    def _add(self, words: Sequence[int]) -> int:
        """Adds words to the plan. Returns their offset."""
        self._words += words
        return len(self._words) - len(words)

    def _add_all(self, lists: Sequence[Sequence[int]]) -> int:
        """Adds lists of words to the plan. Returns the offset of the first one."""
        return self._add([word for words in lists for word in words])

    def _write_sums(self) -> None:
        """Writes the sums that functions read, and how they are computed."""
        words, sums, layout = self._words, self._sums, self._sums.layout
        used = layout.terms if sums.far is not None else ()
        terms = layout.placed(term for term in used if layout.at[term] in self._summed)
        addends = Addends(terms, self._types, sums.place)
        self._read += [name for name, _ in addends.reads]
        self._scratch = max(self._scratch, addends.room)
        opening = sums.opening if sums.opening in self._summed else -1
        numbers = [(one.at, one.limbs) for one in terms] + [(at, 0) for at in sums.extrema.values()]
        numbers += [(opening, 1)] if opening >= 0 else []
        words[kernels.SUM_WORDS], words[kernels.OPENING] = sums.words, opening
        words[kernels.FAR] = -1 if sums.far is None else sums.far
        words[kernels.NUMBER_COUNT], words[kernels.NUMBERS_AT] = len(numbers), self._add_all(numbers)
        words[kernels.RECIPE_AT] = self._add(addends.recipe.tolist())

    def _described(self, call: WindowFunction) -> tuple[Frame, int, list[int]]:
        """Returns the frame of a function, its kind, and its further words."""
        if call.function in _PLACES:
            kind, whole = _PLACES[call.function]
            return whole, kind, []
        frame, sums = call.frame, self._sums
        assert frame is not None, "it reads a frame"
        if call.function in frames.ENDS:
            one = extremum_of(call)
            if not in_a_word(self._types[call.arguments[0]]) or not (frame.start is None or frame.bounded):
                raise NotFramed(_refused(call))
            self._read += [name for name in one[1:] if name is not None]
            return frame, kernels.BEST, [sums.extrema.get(one, -1), *self._extremum(one)]
        more: list[int] | None = [batch.WORD, sums.opening]
        if call.function != "dense_rank":
            more = None if call.gathered or call.name not in sums.rules else sums.rules[call.name].native(sums.layout)
        if more is None:
            raise NotFramed(_refused(call))
        more += [0] * (batch.COLUMN_WORDS - len(more))
        self._summed.add(more[batch.V_SOURCE])
        if more[batch.V_KIND] != batch.WORD:
            self._summed.add(more[batch.V_COUNT_AT])
            self._scratch = max(self._scratch, 3 * (max(more[batch.V_LIMBS], 2) + 1))
        if more[batch.V_KIND] in (batch.SUM, batch.AVERAGE) and more[batch.V_PLUS_INFINITIES] >= 0:
            self._summed |= {more[batch.V_PLUS_INFINITIES], more[batch.V_MINUS_INFINITIES]}
        return frame, kernels.SUM, more

    def _extremum(self, one: Extremum) -> tuple[int, ...]:
        """Returns the words of an extremum, without the first one."""
        function, argument, where = one
        filtered = -1 if where is None else self._sums.place[where]
        return self._sums.place[argument], filtered, order_of(self._types[argument]), int(function == "min")


def _bound(call: WindowFunction, frame: Frame, offset: float | None) -> tuple[int, int]:
    """Returns the unit of a bound, and the distance. Raises NotFramed."""
    if frame.exclude or frame.unit not in ("rows", "range") or int(offset or 0) != (offset or 0):
        raise NotFramed(_refused(call))
    if offset is None:
        return kernels.UNBOUNDED, 0
    if frame.unit == "range":
        if abs(offset) >= 1 << 62:
            raise NotFramed(_refused(call))
        return kernels.VALUES if offset else kernels.PEERS, int(offset)
    if abs(offset) > _MAX_ROWS:
        raise NotFramed(f"{call.function.upper()} over frames of more than {_MAX_ROWS} rows has no native form")
    return kernels.ROWS, int(offset)


def _refused(call: WindowFunction) -> str:
    """Returns that a function has no native form."""
    return f"{call.function.upper()}{'' if call.frame is None else ' over this frame'} has no native form"
