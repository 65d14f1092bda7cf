"""The generic bag: any cyclic join, maintained by a worst-case optimal delta join, never by joins of two atoms.

`// d(R_1 x .. x R_n) := sum over i of R_1', .., R_(i-1)', dR_i, R_(i+1), .., R_n`: the engine hands over one atom's
changes after the other, so each is joined with the atoms as they are at that moment. State is linear in the atoms.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crown.bags.kernels import layout as L
from crown.bags.kernels import tries
from crown.bags.protocol import BLOCK_ROWS, BagBudgetError, BagError, BagSpec, column_of_table, handles_of_table
from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.arena import (
    H_BUDGET,
    H_LIMIT,
    H_LIVE,
    H_MAGIC,
    H_PLAN0,
    H_TOP,
    T_CAPACITY,
    T_COUNT,
    T_SLOTS,
    is_arena,
)
from crown.kernels.geometry import counted_words, counter_of, list_length
from crown.kernels.tables import LOW32, table_at
from crown.store.zset import Zset
from plans.theory.widths import edge_covers

Index = tuple[int, tuple[str, ...], str]  # atom, bound attributes, attribute


class _Words:
    """An append-only array of words; lists are placed and named by their offset."""

    def __init__(self, size: int) -> None:
        self.words = [0] * size

    def place(self, values: Sequence[int]) -> int:
        self.words.extend(values)
        return len(self.words) - len(values)


def binding_order(spec: BagSpec, source: int) -> list[str]:
    """Returns the attributes outside atom `source` in the order in which the delta join binds them.

    Next comes the attribute with the most atoms that already touch what is bound, so that lists are short.
    """
    bound = set(spec.atoms[source])
    others = [set(atom) for i, atom in enumerate(spec.atoms) if i != source]
    order: list[str] = []
    rest = [a for a in spec.attributes if a not in bound]
    while rest:
        best = max(rest, key=lambda v: (sum(v in atom and bool(atom & bound) for atom in others), -rest.index(v)))
        rest.remove(best)
        order.append(best)
        bound.add(best)
    return order


class GenericBag:
    """A bag over any atoms (see `crown.bags.protocol.Bag`): generic join in both directions of time."""

    def __init__(self, spec: BagSpec, arena: np.ndarray) -> None:
        covered = {a for atom in spec.atoms for a in atom}
        if not set(spec.outputs) <= covered:
            raise BagError(f"outputs {sorted(set(spec.outputs) - covered)} are attributes of no atom of the bag")
        if any(not atom or len(set(atom)) < len(atom) for atom in spec.atoms):
            raise BagError("every atom of a bag needs attributes, each once; select rows with equal columns before")
        self.spec = spec
        self._arena, self._halves = arena, arena.view(np.int32)
        self._indices: list[Index] = []
        self._plan_array, tables = self._compile()
        if arena[H_MAGIC] == 0:
            tries.create_tries(arena, tables, len(arena), secrets.randbits(62))
            arena[H_PLAN0 : H_PLAN0 + 2] = self._fingerprint()
        else:
            if not is_arena(arena):
                raise SnapshotError("this is not the complete state of a bag")
            if (arena[H_PLAN0 : H_PLAN0 + 2] != self._fingerprint()).any():
                raise SnapshotError("the state belongs to a bag with other atoms or outputs")
            arena[H_LIMIT] = arena[H_BUDGET] = len(arena)
        self._out = np.empty((len(spec.outputs), BLOCK_ROWS), dtype=np.int64)

    # -- the plan array ----------------------------------------------------------------------------------------------

    def _compile(self) -> tuple[np.ndarray, int]:
        spec, n = self.spec, len(self.spec.atoms)
        number = {a: i for i, a in enumerate(spec.attributes)}
        orders = [binding_order(spec, i) for i in range(n)]
        parts = [self._parts(i, orders[i]) for i in range(n)]
        words = _Words(L.P_ATOMS + L.ATOM * n)
        index_at = {}
        for j, (owner, bound, attribute) in enumerate(self._indices):
            columns = words.place([spec.atoms[owner].index(a) for a in (*bound, attribute)])
            index_at[owner, bound, attribute] = words.place(
                [len(bound), columns, int(table_at(L.prefix_table(n, j))), int(table_at(L.pair_table(n, j)))]
            )
        header = {
            L.P_ATTRS: len(number),
            L.P_OUTS: len(spec.outputs),
            L.P_OUTS_AT: words.place([number[a] for a in spec.outputs]),
            L.P_COUNTED: int(set(spec.outputs) != set(spec.attributes)),
            L.P_OUT_TABLE: int(table_at(L.output_table(n, len(self._indices)))),
            L.P_IDENTITY: words.place(range(len(number) + 1)),
        }
        for position, value in header.items():
            words.words[position] = value
        for i, atom in enumerate(spec.atoms):
            own = [index_at[index] for index in self._indices if index[0] == i]
            inside = [j for j, other in enumerate(spec.atoms) if j != i and set(other) <= set(atom)]
            checks: list[int] = []
            for j in inside:
                checks += [
                    int(table_at(L.rows_table(j))),
                    len(spec.atoms[j]),
                    words.place([number[a] for a in spec.atoms[j]]),
                ]
            steps: list[int] = []
            for attribute, step_parts in zip(orders[i], parts[i], strict=True):
                flat: list[int] = []
                for index in step_parts:
                    flat += [index_at[index], words.place([number[a] for a in (*index[1], attribute)])]
                steps += [number[attribute], len(step_parts), words.place(flat)]
            at = L.P_ATOMS + L.ATOM * i
            words.words[at : at + L.ATOM] = [
                len(atom),
                int(table_at(L.rows_table(i))),
                words.place([number[a] for a in atom]),
                len(own),
                words.place(own),
                len(inside),
                words.place(checks),
                len(orders[i]),
                words.place(steps),
            ]
        return np.array(words.words, dtype=np.int64), L.table_total(n, len(self._indices))

    def _parts(self, source: int, order: list[str]) -> list[list[Index]]:
        """Returns per attribute to bind the indices that offer its values, one per atom that has it."""
        bound = set(self.spec.atoms[source])
        steps = []
        for attribute in order:
            step = []
            for j, atom in enumerate(self.spec.atoms):
                if j != source and attribute in atom:
                    index = (j, tuple(a for a in atom if a in bound), attribute)
                    if index not in self._indices:
                        self._indices.append(index)
                    step.append(index)
            steps.append(step)
            bound.add(attribute)
        return steps

    def _fingerprint(self) -> np.ndarray:
        digest = [0, 0]
        for i, word in enumerate(self._plan_array.tolist()):
            digest[i % 2] = (digest[i % 2] * 6364136223846793005 + word + 1442695040888963407) % (1 << 64)
        return np.array(digest, dtype=np.uint64).view(np.int64)

    # -- changes and results -----------------------------------------------------------------------------------------

    def apply(self, atom: int, change: Zset, missing: np.ndarray | None = None) -> Iterator[Zset]:
        """Applies a change of one atom, deletions first; yields the change of the result set. See
        `crown.bags.protocol.Bag.apply`.

        Per row: the AGM bound of the other atoms with the row fixed (`bound`). Raises MemoryBudgetError if the arena is
        exhausted in the midst of a row; the state is then unusable.
        """
        flat, weights = change.flat(), change.weights
        missing = np.zeros(len(weights), dtype=np.int64) if missing is None else missing
        bound, cursor = self._scratch()
        for sign in (-1, 1):
            cursor[:] = 0
            while cursor[L.C_ROW] < len(weights):
                try:
                    found = tries.join_rows(
                        self._arena,
                        self._halves,
                        self._plan_array,
                        atom,
                        flat,
                        weights,
                        missing,
                        sign,
                        bound,
                        cursor,
                        self._out,
                    )
                except MemoryError:
                    raise MemoryBudgetError("a bag's arena was exhausted in the middle of a batch") from None
                if found:
                    yield Zset.of_columns(self._out[:, :found], np.full(found, sign, np.int64))
                if cursor[L.C_OVER]:
                    raise BagBudgetError(int(cursor[L.C_ROW]))

    def _scratch(self) -> tuple[np.ndarray, np.ndarray]:
        attributes = int(self._plan_array[L.P_ATTRS])
        return np.zeros(attributes, dtype=np.int64), np.zeros(L.C_STACK + L.LEVEL * (attributes + 1), dtype=np.int64)

    def missing_copies(self, atom: int, deletes: Zset) -> int:
        """Returns the index of the first delete that finds too few copies, or -1. Changes nothing."""
        return int(tries.missing_rows(self._arena, self._plan_array, atom, deletes.flat(), -deletes.weights))

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute in the rows of its atoms."""
        atoms = [(i, atom.index(attribute)) for i, atom in enumerate(self.spec.atoms) if attribute in atom]
        return np.concatenate([column_of_table(self._arena, L.rows_table(i), position) for i, position in atoms])

    def rows(self, atom: int) -> Zset:
        """Returns the present rows of an atom, each once, with their copies."""
        handles, width = handles_of_table(self._arena, L.rows_table(atom)), len(self.spec.atoms[atom])
        return Zset(self._arena[handles[:, None] + np.arange(width)], self._arena[counter_of(handles, width)])

    def results(self) -> Iterator[np.ndarray]:
        """Yields the present results in blocks; not across an `apply`."""
        bound, cursor = self._scratch()
        out = np.empty((len(self.spec.outputs), BLOCK_ROWS), dtype=np.int64)
        while found := tries.all_rows(self._arena, self._halves, self._plan_array, bound, cursor, out):
            yield np.ascontiguousarray(out[:, :found].T)

    @property
    def words(self) -> np.ndarray:
        """Returns the used prefix of the arena."""
        return self._arena[: int(self._arena[H_TOP])]

    @property
    def bound(self) -> str:
        """Returns cost of an update: the fractional edge cover of what a changed row leaves open, the worst over the
        atoms."""
        number = {a: i for i, a in enumerate(self.spec.attributes)}
        worst = 0.0
        for source, atom in enumerate(self.spec.atoms):
            edges = [
                sum(1 << number[a] for a in other if a not in atom)
                for j, other in enumerate(self.spec.atoms)
                if j != source and set(other) - set(atom)
            ]
            open_attributes = sum(1 << number[a] for a in binding_order(self.spec, source))
            if open_attributes:
                worst = max(worst, edge_covers(edges, [open_attributes])[0][0])
        return f"generic join: O(N^{worst:g}) per update, worst-case optimal for a single change of an atom"

    def _records(self, table: int, words: int) -> list[list[int]]:
        """Returns the first `words` words of each record of a table, and the handle."""
        t = int(table_at(table))
        slots = self._arena[int(self._arena[t + T_SLOTS]) :][: int(self._arena[t + T_CAPACITY])]
        handles = [int(slot) & LOW32 for slot in slots if slot]
        assert len(handles) == self._arena[t + T_COUNT]
        return [[*self._arena[h : h + words].tolist(), h] for h in handles]

    def check_invariants(self) -> None:
        """Checks that indices hold the rows' projections, and the counted outputs the join.

        Raises AssertionError. Slow.
        """
        n = len(self.spec.atoms)
        rows = []
        for i, atom in enumerate(self.spec.atoms):
            records = self._records(L.rows_table(i), counted_words(len(atom)))
            assert all(record[-2] > 0 for record in records), "multiplicities are positive"
            rows.append([dict(zip(atom, record[: len(atom)], strict=True)) for record in records])
        for j, (i, bound, attribute) in enumerate(self._indices):
            k = len(bound)
            pairs = Counter(tuple(row[a] for a in (*bound, attribute)) for row in rows[i])
            have = self._records(L.pair_table(n, j), L.pair_rows(0, k) + 1)
            assert {tuple(record[: k + 1]): record[k + 1] for record in have} == pairs
            prefixes = Counter(pair[:k] for pair in pairs)
            lengths = {
                tuple(r[:k]): int(list_length(self._halves, L.pairs_field(r[-1], k)))
                for r in self._records(L.prefix_table(n, j), k)
            }
            assert lengths == prefixes
        joined: list[dict[str, int]] = [{}]
        for atom_rows in rows:
            joined = [
                {**left, **row} for left in joined for row in atom_rows if left.items() <= {**left, **row}.items()
            ]
        results = Counter(tuple(result[a] for a in self.spec.outputs) for result in joined)
        if self._plan_array[L.P_COUNTED]:
            width = len(self.spec.outputs)
            have = self._records(L.output_table(n, len(self._indices)), counted_words(width))
            assert {tuple(record[:width]): record[width] for record in have} == results
        listed = [tuple(row) for block in self.results() for row in block.tolist()]
        assert Counter(listed) == Counter(set(results)), "each result is listed once"

    def stats(self) -> dict[str, Any]:
        """Returns rows per atom, entries of the indices, bytes."""
        n = len(self.spec.atoms)
        return {
            "rows": [int(self._arena[table_at(L.rows_table(i)) + T_COUNT]) for i in range(n)],
            "index_entries": sum(
                int(self._arena[table_at(L.pair_table(n, j)) + T_COUNT]) for j in range(len(self._indices))
            ),
            "bytes": int(self._arena[H_LIVE]) * 8,
        }
