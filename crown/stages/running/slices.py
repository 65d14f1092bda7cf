"""Slices: maintains the rows whose running sum is on one side of a bound.

    net -> feed -> the trees of partitions -> the runs of selected rows, before and after -> the difference

All rows are stored in order, with exact sums. The row that carries the bound is stored among them, and a tree sums its
bounds as it sums its values. The selected rows are read from a tree as runs of adjacent rows, before and after a batch
changes it. The stage outputs the difference. So a change reads only the rows that it moves across the bound, not all
rows whose sums it moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crown.kernels.memory.tables import table_at
from crown.stages.feeds import Reader
from crown.stages.kernels.over import slices as kernels
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.orders import order_words
from crown.stages.over.sums import Sums
from crown.stages.protocol import Part, Stage
from crown.stages.trees import InOrder, Partitions
from crown.store.zset import Zset
from plans.expressions.build import call, cast, lit
from plans.plan import Output
from plans.programs.frames import Frame, Slice, WindowFunction
from plans.programs.stages import SliceStage
from plans.queries.algebra import unused
from plans.schema import Column
from plans.types import exact_scale

_BITS = 40  # of a position: there are fewer rows
_SO_FAR = Frame("rows", None, 0)


@dataclass(eq=False)
class _Runs:
    """Selected rows: positions ``firsts`` to ``ends`` of the trees with the numbers ``tree``."""

    tree: np.ndarray
    firsts: np.ndarray
    ends: np.ndarray

    def contain(self, tree: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns whether positions of trees are selected (bool[n])."""
        begins, ends = (np.append(0, (self.tree << _BITS) + part) for part in (self.firsts, self.ends))
        targets = (tree << _BITS) + positions
        ends[0] = -1
        return np.asarray(targets < ends[np.searchsorted(begins, targets, "right") - 1])


def _rule(rule: Slice, sums: Sums, functions: Sequence[WindowFunction], bound: int) -> np.ndarray:
    """Returns a slice as words for the kernel.

    ``functions``: the sums of all values, of negative values, and of bounds. ``bound``: the column of bounds.
    """
    places = [sums.summed(call) for call in functions]
    (total, count), (negative, _), (bounds, number) = (
        ((place.start, place.stop - place.start), sums.rules[call.name].counted(sums.layout))
        for call, place in zip(functions, places, strict=True)
    )
    scales = [exact_scale(functions[i].type) or 0 for i in (0, 2)]
    units = [10 ** max(0, other - own) for own, other in (scales, scales[::-1])]
    limbs = max(total[1], bounds[1]) + 1 + (scales[0] != scales[1])
    flags = rule.comparison in ("le", "gt"), rule.comparison in ("lt", "le"), rule.inclusive, rule.zero
    return np.array([*total, count, *negative, *bounds, number, bound, limbs, *units, *flags], np.int64)


class Slices(InOrder, Stage):
    """Runs a slice stage. ``source``: the columns that it reads."""

    def __init__(self, stage: SliceStage, source: Sequence[Column], part: Part) -> None:
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source,)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        outputs, named = stage.feed.columns, {output.name: output for output in stage.feed.columns}
        summed, bound = named[stage.slice.summed], named[stage.slice.bound]
        is_negative = Output(unused("falls", named), "bool", call("lt", summed.expr, cast(lit(0), summed.type)))
        self._reader = Reader(replace(stage.feed, columns=(*outputs, is_negative)), source, part.dictionary)
        self._all = self._reader.columns
        self._visible = len(outputs) - stage.hidden
        self.columns = self._all[: self._visible]
        place = {column.name: i for i, column in enumerate(self._all)}
        keyed = [place[name] for name in stage.keys]
        read = ((summed, None), (summed, is_negative.name), (bound, None))
        functions = [
            WindowFunction(str(i), output.type, "sum", (output.name,), where, _SO_FAR)
            for i, (output, where) in enumerate(read)
        ]
        self._sums = Sums(functions, self._all, part.dictionary, {})
        self.trees = Partitions(
            part, int(table_at(0)), [column.type for column in self._all], keyed,
            order_words(self._all, stage.order, keyed), self._sums.shape,
        )  # fmt: skip
        self._ordered = len(self._all) - len(keyed)
        self._rule = _rule(stage.slice, self._sums, functions, place[bound.name])
        part.open(1)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(log n) per change, and O(1) per row that becomes selected or stops being selected.

        Raises MemoryBudgetError, and ChangeError for a delete of an absent row.
        """
        net = self.trees.together(self._reader.zset(nets[0]).net(), self.trees.count)
        if not len(net):
            return Zset.empty(self._visible)
        return self._part.run_atomically(net, self._delta, self._change)

    def _change(self, net: Zset, done: np.ndarray) -> None:
        self.trees.change(net, lambda keys, weights: self._sums.addends(keys, weights)[0], done, "of a slice")

    def _delta(self, net: Zset, done: np.ndarray) -> Zset:
        """Applies changes of rows. Returns the change of the selected rows: the changed rows one by one, and all other
        rows between the old and the new ends of runs, at their positions after the batch."""
        rows = Zset(net.rows[:, : self._visible], np.ones(len(net), np.int64)).net()
        keys = np.zeros((len(self._all), len(rows)), np.int64)
        keys[: self._visible] = rows.columns()
        before = self.trees.find(keys)
        old_trees, old_tree = np.unique(before, return_inverse=True)
        old = self._runs(old_trees)
        firsts, lasts = self._edges(old_trees, old)
        selected_before = self._selected(old, old_tree, before, keys)
        self._change(net, done)
        after = self.trees.find(keys)
        trees, first, tree = np.unique((before << 32) | after, return_index=True, return_inverse=True)
        handles = after[first]
        renumbered = np.zeros(len(old_trees), np.int64)
        renumbered[old_tree[first]] = np.arange(len(trees))
        relocated = self._relocated(handles, renumbered[old.tree], firsts, lasts)
        new = self._runs(handles)
        begins, ends = self._bounds(after, keys)
        present = begins < ends
        selected_by_position = relocated.contain(tree, begins) & present
        weights = selected_by_position.astype(np.int64) - selected_before
        found = [self._between(handles, relocated, new), Zset(rows.rows, weights)[weights != 0]]
        return Zset.gathered(found, self._visible).net()

    def _runs(self, handles: np.ndarray) -> _Runs:
        """Returns the selected rows of trees. O(log n) per run."""
        room = 2 * len(handles) + 16
        numbers = np.zeros(4 * int(self._rule[kernels.LIMBS]), np.int64)
        while True:
            runs = np.empty((room, 3), np.int64)
            found = int(
                kernels.selected(
                    self._part.arena, handles, self.trees.k, self._sums.shape, self._rule, self.trees.path, numbers,
                    runs,
                )
            )  # fmt: skip
            if found <= room:
                return _Runs(*np.ascontiguousarray(runs[:found].T))
            room = found

    def _edges(self, handles: np.ndarray, runs: _Runs) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first and the last row of runs, codes, int64[width, n]. O(log n) each."""
        trees = handles[runs.tree]
        return self.trees.row(trees, runs.firsts), self.trees.row(trees, runs.ends - 1)

    def _relocated(self, handles: np.ndarray, tree: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> _Runs:
        """Returns the runs of trees between rows ``firsts`` and ``lasts``, present or not. O(log n) each."""
        begins = self.trees.located(handles[tree], firsts, self._ordered, FIRST)[0]
        ends = self.trees.located(handles[tree], lasts, self._ordered, BEHIND)[0]
        order = np.argsort((tree << _BITS) + begins, kind="stable")
        return _Runs(tree[order], begins[order], ends[order])

    def _bounds(self, handles: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the start and the end positions of the rows with these ORDER BY values."""
        begins, ends = (self.trees.located(handles, keys, 1, mode)[0] for mode in (FIRST, BEHIND))
        return begins, ends

    def _selected(self, runs: _Runs, tree: np.ndarray, handles: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Returns bool[n], True if the rows with these ORDER BY values are selected."""
        begins, ends = self._bounds(handles, keys)
        return runs.contain(tree, begins) & (begins < ends)

    def _between(self, handles: np.ndarray, old: _Runs, new: _Runs) -> Zset:
        """Returns the rows that are only in new runs of trees, minus the rows that are only in old runs."""
        parts = (
            (new.firsts, new.tree, 1),
            (new.ends, new.tree, -1),
            (old.firsts, old.tree, -1),
            (old.ends, old.tree, 1),
        )
        places = np.concatenate([(tree << _BITS) + at for at, tree, _ in parts])
        signs = np.concatenate([np.full(len(at), sign, np.int64) for at, _, sign in parts])
        order = np.argsort(places, kind="stable")
        places, signs = places[order], np.cumsum(signs[order])
        changed = ((signs[:-1] != 0) & (places[1:] > places[:-1])).nonzero()[0]
        tree, lows = places[changed] >> _BITS, places[changed] & ((1 << _BITS) - 1)
        highs = lows + places[changed + 1] - places[changed]
        rows, _ = self.trees.copied(handles[tree], lows, highs, self.trees.unsummed)
        return Zset.of_columns(rows[: self._visible], np.repeat(signs[changed], highs - lows))

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows in order, partition by partition. O(1) per row, and O(log n) per run."""
        for handles in self.trees.blocks():
            none = _Runs(*np.zeros((3, 0), np.int64))
            yield self._between(handles, none, self._runs(handles))

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(log n) per run of its partition."""
        keys = np.zeros((len(self._all), 1), np.int64)
        keys[: self._visible, 0] = row
        handles = self.trees.find(keys)
        return int(self._selected(self._runs(handles), np.zeros(1, np.int64), handles, keys)[0])
