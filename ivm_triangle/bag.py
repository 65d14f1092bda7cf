"""The triangle as a bag of a larger query: exact changes of the set of distinct triples, from wedge tables.

Mode "triples": every attribute is an output. The bag stores no triples: if the tree above joins them with other
relations, it stores them; else they are only listed. Mode "counts": fewer
attributes are outputs (the bag filters, or groups); the bag stores one count per key, and no triples.

The wedge tables take N^(3/2) words in the worst case. Once the state fills half of its arena, and they are the larger
part of it, they are replaced by tables with the number of wedges, which take linear space.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from crown.bags.protocol import BLOCK_ROWS, BagBudgetError, BagError, BagSpec, column_of_table, handles_of_table
from crown.errors import SnapshotError
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, H_TOP
from crown.store.zset import Zset
from ivm_triangle import invariants
from ivm_triangle.kernels.enumeration import stream
from ivm_triangle.kernels.enumeration.stream import OVER, ROW, SOME, forget_keys, keyed_rows, stream_rows, walk_rows
from ivm_triangle.kernels.state import inspect
from ivm_triangle.kernels.state import layout as at
from ivm_triangle.kernels.state.geometry import left, multiplicity_of, right
from ivm_triangle.state import State
from ivm_triangle.terms import ANY, COUNT, DOMAINS, LIST, PAIRS, SET, View, wedges

EPSILON = (0.5, 0.5, 0.5)
SLICE = 1024  # rows between two checks of the space
WEDGE_WORDS = 6  # of a wedge, about: its record, its slot, its place in a list
NO_KEYS = np.zeros(0, dtype=np.int64)
_Keys = tuple[np.ndarray, np.ndarray, int, np.ndarray]  # arguments of the kernels: codes, flat, w and places


class Shape:
    """Maps attributes to A, B and C, and to their positions in each atom: R(A, B), S(B, C), T(C, A)."""

    def __init__(self, spec: BagSpec) -> None:
        if len(spec.atoms) != 3:
            raise BagError(f"a triangle has three atoms, not {len(spec.atoms)}; plan this bag with method 'generic'")
        sets = [frozenset(atom) for atom in spec.atoms]
        shared = [sets[0] & sets[2], sets[0] & sets[1], sets[1] & sets[2]]
        for k in range(3):
            if not shared[k] or shared[k] & shared[(k + 1) % 3] or shared[k] | shared[(k + 1) % 3] != sets[k]:
                raise BagError(
                    f"atoms {[list(atom) for atom in spec.atoms]} do not share three disjoint keys pairwise, "
                    "as a triangle does; plan this bag with method 'generic'"
                )
        self.domains = tuple(tuple(a for a in spec.attributes if a in keys) for keys in shared)
        self.positions = [
            [np.array([atom.index(a) for a in self.domains[d]]) for d in (k, (k + 1) % 3)]
            for k, atom in enumerate(spec.atoms)
        ]
        self.places = [
            np.array([*map(len, halves), *np.concatenate(halves)], dtype=np.int64) for halves in self.positions
        ]
        place = {a: (d, j) for d, domain in enumerate(self.domains) for j, a in enumerate(domain)}
        self.outputs = [place[a] for a in spec.outputs]
        used = sorted({d for d, _ in self.outputs})
        partial = sum(len(self.domains[d]) for d in used) != len(set(spec.outputs))
        if partial:
            raise BagError(
                f"outputs {list(spec.outputs)} split a composite key of {self.domains}; output the whole key, "
                "and project above"
            )
        self.key = "".join(DOMAINS[d] for d in used)


class TriangleBag:
    """A triangle bag (see `crown.bags.protocol.Bag`). `mode`: "triples" or "counts", as the outputs require."""

    def __init__(self, spec: BagSpec, arena: np.ndarray) -> None:
        self.spec = spec
        self.repeats = False
        self.shape = Shape(spec)
        self.mode = "triples" if self.shape.key == DOMAINS else "counts"
        self._state = self._open(arena)
        self._pairs = self._pair_views()
        views = self._state.program.views
        self._count = next((i for i, view in enumerate(views) if view.kind == COUNT), -1)
        self._keys = (
            np.array([DOMAINS.index(v) for v in self.shape.key], dtype=np.int64) if self.mode == "counts" else NO_KEYS
        )
        self._out = self._new_out()

    def _new_out(self) -> np.ndarray:
        """Returns a buffer for triples, and for their weights if results have weights."""
        return np.empty((3 + self.spec.weighted, BLOCK_ROWS), dtype=np.int64)

    def _block(self, out: np.ndarray, found: int, sign: int) -> Zset:
        """Returns the first rows of a buffer as results."""
        weights = out[3, :found] if self.spec.weighted else np.full(found, sign, np.int64)
        return Zset(self._decode(out[:3, :found]), weights)

    def _open(self, arena: np.ndarray) -> State:
        try:
            return State(wedges(self.shape.key), EPSILON, arena=arena)
        except SnapshotError as error:
            try:
                return State(wedges(self.shape.key, PAIRS), EPSILON, arena=arena)  # saved after `_save_space`
            except SnapshotError:
                raise error from None

    def _pair_views(self) -> np.ndarray:
        """Returns the pair views, and whether they store middles; see `kernels.stream`."""
        views = self._state.program.views
        pairs = [i for i, view in enumerate(views) if view.kind in (LIST, PAIRS)]
        return np.array([*pairs, any(view.kind == LIST for view in views)], dtype=np.int64)

    @property
    def thin(self) -> bool:
        """Returns True if the wedges themselves are no longer stored."""
        return any(view.kind == PAIRS for view in self._state.program.views)

    def _save_space(self) -> bool:
        """Replaces the wedges by their number, if they are most of a state that fills half of its arena or budget.

        Returns True if it has replaced them.
        """
        state = self._state
        live, budget = int(state.arena[H_LIVE]), int(state.arena[H_BUDGET])
        roomy = 2 * int(state.arena[H_TOP]) < state.limit and (2 * live < budget or budget < 0)
        if self.thin or roomy:
            return False
        kept = sum(int(inspect.entries(state.arena, state.plan, view)) for view in self._pairs[:3].tolist())
        if 2 * WEDGE_WORDS * kept <= live:
            return False
        state.change_to(wedges(self.shape.key, PAIRS))
        self._pairs = self._pair_views()
        return True

    def apply(self, atom: int, change: Zset, missing: np.ndarray | None = None, quiet: bool = False) -> Iterator[Zset]:
        """Applies a change of one atom, deletions first. Yields the change of the result set. See
        `crown.bags.protocol.Bag.apply`.

        Amortized O(N^(1/2)) per row and O(1) per result, even if `quiet`, since results are counted.
        """
        quiet = quiet and self.mode == "triples"
        self.repeats = False
        weights = change.weights
        missing = np.zeros(len(weights), dtype=np.int64) if missing is None else missing
        self._state.arena[at.C_EPOCH] += 1
        keys = self._keys_of(atom, change)
        codes = keys[0]
        applied = len(weights)
        for sign in (-1, 1):
            applied = min(applied, (yield from self._apply_sign(atom, keys, weights, missing, sign, quiet)))
        for half, d in enumerate((atom, (atom + 1) % 3)):
            if len(self.shape.domains[d]) > 1:
                unique = np.unique(codes[:, half])
                forget_keys(self._state.arena, d, np.arange(len(self.shape.domains[d])), unique)
        if applied < len(weights):
            raise BagBudgetError(applied)

    def _apply_sign(
        self, atom: int, keys: _Keys, weights: np.ndarray, missing: np.ndarray, sign: int, quiet: bool
    ) -> Generator[Zset, None, int]:
        """Yields the changes of one sign. Returns the number of applied rows: all, unless the budget is used up."""
        codes, flat, width, places = keys
        start = 0
        while start < len(weights):
            part = slice(start, start + SLICE)
            wanted = len(weights[part])
            keys = (codes[part], flat[start * width : part.stop * width], width, places)
            done = yield from self._apply_slice(atom, keys, weights[part], missing[part], sign, quiet)
            start += done
            if not self._save_space() and done < wanted:
                break
        return start

    def _apply_slice(
        self, atom: int, keys: _Keys, weights: np.ndarray, missing: np.ndarray, sign: int, quiet: bool
    ) -> Generator[Zset, None, int]:
        cursor = np.zeros(8, dtype=np.int64)
        tail = (sign, int(self.spec.weighted), self._pairs, self._count, self._keys, cursor, self._out)
        while cursor[ROW] < len(weights) and not cursor[OVER]:
            found = self._state.run(stream_rows, atom, *keys, weights, missing, *tail)
            self.repeats |= bool(cursor[SOME])
            if found and not quiet:
                yield self._block(self._out, found, sign)
        return int(cursor[ROW])

    def _keys_of(self, atom: int, tuples: Zset) -> _Keys:
        """Returns the codes of the keys of tuples, 0 for composite keys, and the arguments from which kernels make
        those."""
        rows, places = tuples.rows, self.shape.places[atom]
        codes = np.zeros((len(rows), 2), dtype=np.int64)
        for half, columns in enumerate(self.shape.positions[atom]):
            if len(columns) == 1:
                codes[:, half] = rows[:, columns[0]]
        composite = len(places) > 4  # two lengths, and more than one column each
        return codes, tuples.flat() if composite else NO_KEYS, tuples.width if composite else 0, places

    def _decode(self, codes: np.ndarray) -> np.ndarray:
        """Returns rows of output attributes from columns of A, B and C codes."""
        result = np.empty((codes.shape[1], len(self.shape.outputs)), dtype=np.int64)
        for i, (d, j) in enumerate(self.shape.outputs):
            result[:, i] = codes[d] if len(self.shape.domains[d]) == 1 else self._state.arena[codes[d] + j]
        return result

    def __len__(self) -> int:
        return sum(int(inspect.edges(self._state.arena, k)) for k in range(3))

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute in the rows of its atoms."""
        d = next(d for d, domain in enumerate(self.shape.domains) if attribute in domain)
        domain = self.shape.domains[d]
        if len(domain) == 1:
            return column_of_table(self._state.arena, d, 0)
        return column_of_table(self._state.arena, at.KEYS + d, domain.index(attribute))

    def rows(self, atom: int) -> Zset:
        """Returns the present rows of an atom, each once, weighted by their copies."""
        arena = self._state.arena
        edges = handles_of_table(arena, 3 + atom)
        ends = arena[edges]
        rows = np.empty((len(edges), len(self.spec.atoms[atom])), np.int64)
        for positions, vertices in zip(self.shape.positions[atom], (left(ends), right(ends)), strict=True):
            values, columns = arena[vertices], positions.tolist()
            for j, column in enumerate(columns):
                rows[:, column] = values if len(columns) == 1 else arena[values + j]
        return Zset(rows, multiplicity_of(arena, edges))

    def copies(self, atom: int, rows: Zset) -> np.ndarray:
        """Returns how many copies of each row are present: int64[n]. O(n) expected."""
        found = np.empty(len(rows), np.int64)
        stream.find_copies(self._state.arena, self._state.plan, atom, *self._keys_of(atom, rows), found)
        return found

    def results(self) -> Iterator[Zset]:
        """Yields the present results, with O(1) delay in mode "counts", else by scanning R and its wedges."""
        if self.mode == "counts":
            cursor = np.zeros(8, dtype=np.int64)
            out = np.empty((3, BLOCK_ROWS), dtype=np.int64)
            while rows := keyed_rows(
                self._state.arena, self._state.halves, self._count, len(self.shape.key), cursor, out
            ):
                columns = np.zeros((3, rows), dtype=np.int64)
                columns[self._keys] = out[: len(self._keys), :rows]
                yield Zset(self._decode(columns), np.ones(rows, np.int64))
        else:
            cursor, out, weighted = np.zeros(8, dtype=np.int64), self._new_out(), int(self.spec.weighted)
            state = (self._state.arena, self._state.halves)
            while rows := walk_rows(*state, weighted, self._pairs, NO_KEYS, cursor, out):
                yield self._block(out, rows, 1)

    @property
    def words(self) -> np.ndarray:
        """Returns the used prefix of the arena."""
        return self._state.words

    @property
    def bound(self) -> str:
        """Returns the cost of an update, for EXPLAIN."""
        if self.thin:
            return (
                "set intersection by counts, eps = 1/2, linear space: O(sqrt N) amortized per update and O(1) per "
                "result that changes, or the smaller degree of two heavy values with a wedge"
            )
        return "IVM^eps, eps = 1/2: O(sqrt N) amortized per update and O(1) per result that changes"

    def check_invariants(self) -> None:
        """Raises AssertionError if the state violates its definition. Slow."""
        copy = invariants.contents(self._state, tuple(map(len, self.shape.domains)))
        copy.check_invariants()
        assert self._state.word(at.C_TRIPLES) == len(copy.define(View("", SET, DOMAINS, (ANY, ANY, ANY))))

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters of the triangle. `triples` is the number of distinct ones."""
        word = self._state.word
        return {
            "mode": self.mode,
            "thin": self.thin,
            "N": word(at.C_BASE),
            "size": word(at.C_SIZE),
            "triples": word(at.C_TRIPLES),
            "major_rebalancings": word(at.C_MAJORS),
            "minor_rebalancings": word(at.C_MINORS),
            "operations": word(at.C_OPS),
            "bytes": self._state.live_bytes,
        }
