"""The generic bag: maintains any cyclic join by a worst-case optimal delta join, never by joins of two atoms.

`d(R_1 x .. x R_n) := sum over i of R_1', .., R_(i-1)', dR_i, R_(i+1), .., R_n`: the engine passes the changes of one
atom after the other, so each change is joined with the current rows of the other atoms. The state is linear in the
atoms.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from crown.bags.kernels import join, tries
from crown.bags.kernels import layout as L
from crown.bags.protocol import BLOCK_ROWS, BagBudgetError, BagError, BagSpec, column_of_table, handles_of_table
from crown.bags.tries import LAYOUT, Trie, Tries, binding_order
from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.memory.arena import (
    H_BUDGET,
    H_LIMIT,
    H_LIVE,
    H_MAGIC,
    H_PLAN0,
    H_STEPS,
    H_TOP,
    T_CAPACITY,
    T_COUNT,
    T_SLOTS,
    is_arena,
)
from crown.kernels.memory.geometry import counted_words, counter_of, linked_group, linked_position, list_length
from crown.kernels.memory.tables import LOW32, table_at
from crown.store.zset import Zset
from plans.theory.widths import edge_covers


class GenericBag:
    """A bag over any atoms (see `crown.bags.protocol.Bag`): generic join in both directions of time."""

    def __init__(self, spec: BagSpec, arena: np.ndarray) -> None:
        covered = {a for atom in spec.atoms for a in atom}
        if not set(spec.outputs) <= covered:
            raise BagError(f"outputs {sorted(set(spec.outputs) - covered)} are attributes of no atom of the bag")
        if any(not atom or len(set(atom)) < len(atom) for atom in spec.atoms):
            raise BagError("every atom of a bag needs attributes, each once; select rows with equal columns before")
        self.spec = spec
        self.repeats = False
        self._arena, self._halves = arena, arena.view(np.int32)
        self._tries = Tries(spec)
        self._plan_array = self._tries.array()
        if arena[H_MAGIC] == 0:
            tries.create_tries(arena, self._tries.tables, len(arena), secrets.randbits(62))
            arena[H_PLAN0 : H_PLAN0 + 2] = self._fingerprint()
        else:
            if not is_arena(arena):
                raise SnapshotError("this is not the complete state of a bag")
            if (arena[H_PLAN0 : H_PLAN0 + 2] != self._fingerprint()).any():
                raise SnapshotError(
                    "the state belongs to a bag with other atoms or outputs, or to another version of crown: "
                    "fill a new view from the tables"
                )
            arena[H_LIMIT] = arena[H_BUDGET] = len(arena)
        self._out = self._new_out()

    def _new_out(self) -> np.ndarray:
        """Returns a buffer for results: a column per output, and one for the weights if results have weights."""
        return np.empty((len(self.spec.outputs) + self.spec.weighted, BLOCK_ROWS), dtype=np.int64)

    def _block(self, out: np.ndarray, found: int, sign: int) -> Zset:
        """Returns the first rows of a buffer as results."""
        width = len(self.spec.outputs)
        weights = out[width, :found] if self.spec.weighted else np.full(found, sign, np.int64)
        return Zset.of_columns(out[:width, :found], weights)

    def _fingerprint(self) -> np.ndarray:
        digest = [0, 0]
        for i, word in enumerate([LAYOUT, *self._plan_array.tolist()]):
            digest[i % 2] = (digest[i % 2] * 6364136223846793005 + word + 1442695040888963407) % (1 << 64)
        return np.array(digest, dtype=np.uint64).view(np.int64)

    # -- changes and results -----------------------------------------------------------------------------------------

    def apply(self, atom: int, change: Zset, missing: np.ndarray | None = None, quiet: bool = False) -> Iterator[Zset]:
        """Applies a change of one atom, deletions first. Yields the change of the result set. See
        `crown.bags.protocol.Bag.apply`.

        Cost per row: the AGM bound of the other atoms with the row fixed (`bound`). Raises MemoryBudgetError if the
        arena is exhausted within a row; the state is then unusable.
        """
        flat, weights = change.flat(), change.weights
        missing = np.zeros(len(weights), dtype=np.int64) if missing is None else missing
        bound, cursor = self._scratch()
        listing = int(not quiet or self._tries.counted)
        self.repeats = False
        for sign in (-1, 1):
            cursor[:] = 0
            while cursor[L.C_ROW] < len(weights):
                try:
                    found = join.join_rows(
                        self._arena,
                        self._halves,
                        self._plan_array,
                        atom,
                        flat,
                        weights,
                        missing,
                        sign,
                        listing,
                        bound,
                        cursor,
                        self._out,
                    )
                except MemoryError:
                    raise MemoryBudgetError("a bag's arena was exhausted in the middle of a batch") from None
                self.repeats |= bool(cursor[L.C_SOME])
                if found:
                    yield self._block(self._out, found, sign)
                if cursor[L.C_OVER]:
                    raise BagBudgetError(int(cursor[L.C_ROW]))

    def _scratch(self) -> tuple[np.ndarray, np.ndarray]:
        attributes = len(self.spec.attributes)
        return np.zeros(attributes, dtype=np.int64), np.zeros(self._tries.cursor_words, dtype=np.int64)

    def __len__(self) -> int:
        return sum(int(self._arena[table_at(trie.rows) + T_COUNT]) for trie in self._tries.tries)

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute in the rows of its atoms."""
        atoms = [(i, atom.index(attribute)) for i, atom in enumerate(self.spec.atoms) if attribute in atom]
        return np.concatenate(
            [column_of_table(self._arena, self._tries.tries[i].rows, position) for i, position in atoms]
        )

    def rows(self, atom: int) -> Zset:
        """Returns the present rows of an atom, each once, weighted by their copies."""
        handles, width = handles_of_table(self._arena, self._tries.tries[atom].rows), len(self.spec.atoms[atom])
        return Zset(self._arena[handles[:, None] + np.arange(width)], self._arena[counter_of(handles, width)])

    def copies(self, atom: int, rows: Zset) -> np.ndarray:
        """Returns how many copies of each row are present: int64[n]. O(n) expected."""
        found = np.empty(len(rows), np.int64)
        join.find_copies(self._arena, self._plan_array, atom, rows.flat(), found)
        return found

    def results(self) -> Iterator[Zset]:
        """Yields the present results in blocks that are valid until the next step. An `apply` invalidates the
        iterator."""
        bound, cursor = self._scratch()
        out = self._new_out()
        while found := join.all_rows(self._arena, self._halves, self._plan_array, bound, cursor, out):
            yield self._block(out, found, 1)

    @property
    def words(self) -> np.ndarray:
        """Returns the used prefix of the arena."""
        return self._arena[: int(self._arena[H_TOP])]

    @property
    def bound(self) -> str:
        """Returns the cost of an update: the fractional edge cover of the attributes that a changed row leaves unbound,
        the maximum over the atoms."""
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
        """Returns the first `words` words and the handle of each record of a table."""
        t = int(table_at(table))
        slots = self._arena[int(self._arena[t + T_SLOTS]) :][: int(self._arena[t + T_CAPACITY])]
        handles = [int(slot) & LOW32 for slot in slots if slot]
        assert len(handles) == self._arena[t + T_COUNT]
        return [[*self._arena[h : h + words].tolist(), h] for h in handles]

    def check_invariants(self) -> None:
        """Checks that indices hold the rows' projections, and counted outputs hold the join.

        Raises AssertionError. Slow.
        """
        rows = []
        for trie in self._tries.tries:
            records = self._records(trie.rows, counted_words(len(trie.atom)))
            assert all(record[-2] > 0 for record in records), "multiplicities are positive"
            rows.append([(dict(zip(trie.atom, record, strict=False)), record[-2]) for record in records])
            self._check_trie(trie, [row for row, _ in rows[-1]])
        joined: list[tuple[dict[str, int], int]] = [({}, 1)]
        for atom_rows in rows:
            joined = [
                ({**left, **row}, product * copies)
                for left, product in joined
                for row, copies in atom_rows
                if left.items() <= {**left, **row}.items()
            ]
        results = Counter(tuple(result[a] for a in self.spec.outputs) for result, _ in joined)
        if self._tries.counted:
            width = len(self.spec.outputs)
            have = self._records(L.output_table(self._tries.sets), counted_words(width))
            assert {tuple(record[:width]): record[width] for record in have} == results
        weighed = [(tuple(result[a] for a in self.spec.outputs), product) for result, product in joined]
        listed = [
            (tuple(row), weight)
            for block in self.results()
            for row, weight in zip(block.rows.tolist(), block.weights.tolist(), strict=True)
        ]
        expected = weighed if self.spec.weighted else [(row, 1) for row in set(results)]
        assert sorted(listed) == sorted(expected), "each result is listed once, with its weight"

    def _check_trie(self, trie: Trie, rows: list[dict[str, int]]) -> None:
        """Checks that an atom's nodes are the projections of its rows, and their lists the records below them."""
        halves, arena = self._halves, self._arena
        for of in trie.sets:
            columns = trie.columns(of)
            projected = sorted({tuple(row[a] for a in columns) for row in rows})
            records = sorted(self._records(trie.table(of), len(columns)))
            assert [tuple(record[:-1]) for record in records] == projected, "a record for each projection"
            for *words, handle in records:
                values = dict(zip(columns, words, strict=True))
                for above, v in trie.incoming(of):
                    link, carried = trie.link(above, v), trie.carried(above, v)
                    node, at = int(linked_group(halves, handle, link)), int(linked_position(halves, handle, link))
                    assert arena[node : node + len(above)].tolist() == [values[a] for a in trie.columns(above)]
                    field = node + trie.field(above, v)
                    assert L.record_at(halves, field, carried, at) == handle, "a link is the record's place in the list"
                    assert L.value_at(arena, halves, field, carried, at) == values[v], "lists carry the values below"
                mine = [row for row in rows if values.items() <= row.items()]
                for v in trie.leaving(of):
                    length = int(list_length(halves, handle + trie.field(of, v)))
                    assert length == len({row[v] for row in mine}) > 0, "an entry per value, and no node without"

    def stats(self) -> dict[str, Any]:
        """Returns rows per atom, nodes of the tries, list values read so far (``steps``), and bytes."""

        def count(table: int) -> int:
            return int(self._arena[table_at(table) + T_COUNT])

        return {
            "rows": [count(trie.rows) for trie in self._tries.tries],
            "nodes": sum(count(trie.table(of)) for trie in self._tries.tries for of in trie.sets[:-1]),
            "steps": int(self._arena[H_STEPS]),
            "bytes": int(self._arena[H_LIVE]) * 8,
        }
