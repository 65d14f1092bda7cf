"""`Triangle`: maintains a triangle query over R(A, B), S(B, C), T(C, A)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from crown.guards.arguments import Size, size_of
from crown.guards.interrupts import Uninterrupted
from crown.guards.uncopyable import NotCopyable
from crown.store.zset import SECRET
from ivm_triangle import invariants, snapshot
from ivm_triangle.encode import Columns, Domain, split_rows, table_of
from ivm_triangle.errors import NegativeMultiplicityError, StaleCursorError, TriangleError
from ivm_triangle.kernels.enumeration import hops
from ivm_triangle.kernels.enumeration.triples import MAX_DELAY, triple_rows
from ivm_triangle.kernels.state import inspect
from ivm_triangle.kernels.state import layout as at
from ivm_triangle.kernels.update.maintain import apply_rows, find_taken, load_rows, multiplicity
from ivm_triangle.kernels.update.netting import net_rows, squares_of
from ivm_triangle.state import DEFAULT_MEMORY, State
from ivm_triangle.terms import RELATIONS, ROOT, Thresholds, adaptive, epsilons, program, shared

BATCH = 8192
LARGEST = 2.0**62
LEAST_MEMORY = 64 << 10
_SHAPES = {"root H(LH)#": hops.BY_S, "root L#(HL)": hops.BY_T, "root (LH)#(HL)": hops.BY_BOTH}


class Triangle(NotCopyable, instead="save(path) and Triangle.load(path) make a second one"):
    """The triangle query with free variables `outputs`, maintained under inserts and deletes with multiplicities.

    `outputs`: "" is the number of triangles (Delta0); "a", "ab" or "abc" are Delta1 to Delta3. `epsilon` in [0, 1]
    trades update time N^max{eps, 1 - eps} (amortized) against space and enumeration delay. 1/2 is worst-case optimal; 0
    and 1 are first-order maintenance. A dict gives each relation its own epsilon. "auto" is 1/2, with a factor of 1/8
    to 8 per relation that follows the observed rates of updates. `partition` "double" needs only linear space for the
    count for eps >= 1/2 under strategy "eps". `strategy`: see `terms.program`. `columns` names the key columns of a
    relation if they are not the first two: `{"R": ("src", ("dst", "kind"))}`. `edges` names one relation that plays R,
    S and T at once (a self-join; for the count it is stored once). `memory` bounds the state, in bytes or as a text
    such as "512 MiB". `arena` (int64, zero or a state of the same query) is memory to use instead, see `state.State`.

    Source: Kara, Nikolic, Ngo, Olteanu, Zhang, "Maintaining triangle queries under updates" (TODS 2020).

    >>> triangle = Triangle(edges="E")
    >>> triangle.apply({"E": {"src": [0, 1, 2], "dst": [1, 2, 0]}})
    >>> triangle.count()  # as (a, b, c), (b, c, a) and (c, a, b)
    3
    >>> triangle.apply({"E": {"src": [1], "dst": [2], "_weight": [-1]}})
    >>> triangle.count()
    0
    """

    def __init__(
        self,
        outputs: str = "",
        epsilon: float | str | dict[str, float] = 0.5,
        partition: str = "single",
        strategy: str = "auto",
        *,
        columns: Mapping[str, tuple[str | Columns, str | Columns]] | None = None,
        edges: str | None = None,
        memory: Size = DEFAULT_MEMORY,
        arena: np.ndarray | None = None,
    ) -> None:
        auto = isinstance(epsilon, str) and epsilon == "auto"
        eps = epsilons(0.5 if auto else epsilon)
        self.plan = program(outputs, partition, strategy, min(eps))
        if not (edges is None or isinstance(edges, str)):
            raise TriangleError(f"edges= is the name of a relation, not {edges!r:.100}")
        named = {} if columns is None else _named(columns)
        if auto:
            self.plan = adaptive(self.plan)
        if edges is not None and self.plan.strategy in ("sit", "classical") and outputs == "":
            if len(set(eps)) > 1:
                raise TriangleError("edges= is one relation, which is stored once: give one epsilon, not one for each")
            self.plan = shared(self.plan.strategy)
        self.outputs = outputs
        self._eps = eps
        self._options = {
            "outputs": outputs,
            "epsilon": epsilon,
            "partition": partition,
            "strategy": strategy,
            "columns": {name: list(pair) for name, pair in named.items()},
            "edges": edges,
        }
        self._edges = edges
        self._state = State(self.plan, eps, size_of(memory, "memory", LEAST_MEMORY), arena)
        self._uninterrupted = Uninterrupted()
        self._domains = (Domain("A"), Domain("B"), Domain("C"))
        if edges is not None:
            self._domains = (Domain("A"),) * 3  # one code space: a value has the same code in all positions
        self._columns = named
        self._null_rows = 0
        self._max_delay = 0

    def __repr__(self) -> str:
        over = f" over {self._edges}" if self._edges is not None else ""
        return f"<crown.Triangle of {self.outputs or 'the count'}{over}, {self.plan.strategy}>"

    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes state, dictionaries and options to one file, atomically. Returns its size in bytes. O(state)."""
        return snapshot.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, memory: Size = DEFAULT_MEMORY) -> Self:
        """Returns the `Triangle` that `save` wrote. Raises SnapshotError for any other file. O(state)."""
        loaded: Self = snapshot.load(cls, path, memory)
        return loaded

    def _distinct_domains(self) -> tuple[Domain, ...]:
        return self._domains[:1] if self._edges is not None else self._domains

    # -- changes -----------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Applies one batch: `{"R": table, ...}`, with two key columns each and an optional integer `_weight` (default
        +1).

        Weights of equal tuples are summed first, and deletions precede insertions. Rows with a NULL key never join and
        are left out. Raises NegativeMultiplicityError, without any change, if a multiplicity would fall below zero, and
        TriangleError if sums could leave 64 bits. Amortized O(N^max{eps, 1 - eps}) per tuple; O(N^1.5) for a batch of
        at least a quarter of N.
        """
        if not isinstance(changes, Mapping):
            raise TriangleError(f'changes are given as {{"R": table, ...}}, not as {type(changes).__name__}')
        parts, dropped_rows = [], 0
        for name, data in changes.items():
            relations = self._relations(name)
            table = table_of(data)
            first, second = self._key_columns(name, table)
            k = relations[0]
            x, y, weights, dropped = split_rows(
                table, name, first, second, (self._domains[k], self._domains[(k + 1) % 3])
            )
            dropped_rows += dropped
            parts += [np.stack([np.full(len(x), k), x, y, weights], axis=1) for k in relations]
        if parts:
            self.apply_codes(np.concatenate(parts))
        self._null_rows += dropped_rows

    def apply_codes(self, rows: np.ndarray) -> None:
        """Applies one batch of rows int64[n, 4]: relation (0 to 2), first code, second code, weight. See `apply`."""
        self._state.check_usable()
        rows, takes = _net(_four_columns(rows))
        norms = self._guard(rows)
        edges = np.empty(len(rows), dtype=np.int64)
        bad = find_taken(self._state.arena, self._state.plan, rows, takes, edges)
        if bad >= 0:
            raise NegativeMultiplicityError(self._below_zero(*rows[bad].tolist()))
        large = len(rows) > 1 and 4 * len(rows) >= self._state.word(at.C_BASE)
        with self._uninterrupted:
            self._state.run(load_rows if large else apply_rows, rows, takes, edges, rows=len(rows))
            self._norms = norms
            self._forget_values()

    def _forget_values(self) -> None:
        for d, domain in enumerate(self._domains):
            if domain.codes:
                domain.sweep(inspect.vertices(self._state.arena, d), partial(self._alive, d))

    def replay_codes(self, rows: np.ndarray) -> None:
        """Applies rows (as in `apply_codes`) one by one in the given order, without summing weights first.

        Raises NegativeMultiplicityError at the first row that would decrease a multiplicity below zero. The rows before
        it stay applied.
        """
        rows = _four_columns(rows)
        with self._uninterrupted:
            self._norms = self._guard(rows)
            done = self._state.run(apply_rows, rows, 0, np.empty(0, dtype=np.int64), rows=len(rows))
        if done < len(rows):
            raise NegativeMultiplicityError(self._below_zero(*rows[done].tolist()))

    def _alive(self, d: int, codes: np.ndarray) -> np.ndarray:
        found = np.zeros(len(codes), dtype=np.bool_)
        for i in range(3) if self._edges is not None else (d,):
            inspect.known(self._state.arena, i, codes, found)
        return found

    def _guard(self, rows: np.ndarray) -> np.ndarray:
        """Returns new bounds on the Euclidean norms of the relations. Their product bounds every sum (Loomis and
        Whitney)."""
        plus = np.zeros(3)
        if not squares_of(rows, self.plan.copies, plus):
            raise TriangleError(f"relations are numbered 0 to {self.plan.copies - 1}, not {np.unique(rows[:, 0])}")
        plus = np.sqrt(plus)
        norms = self._norms + plus
        if self._product(norms) >= LARGEST:
            squares = np.zeros(3)
            inspect.squares(self._state.arena, squares)
            norms = np.sqrt(squares) + plus
            if self._product(norms) >= LARGEST:
                raise TriangleError(
                    "with these multiplicities a count may leave 64 bits; nothing was applied, scale the weights"
                )
        return norms

    @property
    def _norms(self) -> np.ndarray:
        """Bounds on the Euclidean norms of the relations, float64[3], stored in the state."""
        kept = self._state.arena[at.C_NORMS : at.C_NORMS + 3]
        return kept.view(np.float64).copy()

    @_norms.setter
    def _norms(self, norms: np.ndarray) -> None:
        self._state.arena[at.C_NORMS : at.C_NORMS + 3] = norms.view(np.int64)

    def _product(self, norms: np.ndarray) -> float:
        r, s, t = (max(norm, 1.0) for norm in norms.tolist())
        return float(r * s * t if self.plan.copies == 3 else r**3)

    @property
    def _names(self) -> list[str]:
        """Names of the stored relations."""
        return list(RELATIONS) if self.plan.copies == 3 else [self._edges or "E"]

    def _relations(self, name: str) -> tuple[int, ...]:
        if self._edges is not None:
            if name != self._edges:
                raise TriangleError(f"unknown relation {name!r}; this triangle joins {self._edges!r} with itself")
            return tuple(range(self.plan.copies))
        if not isinstance(name, str) or name not in RELATIONS or len(name) != 1:
            raise TriangleError(f"unknown relation {name!r}; the relations are R(A, B), S(B, C) and T(C, A)")
        return (RELATIONS.index(name),)

    def _key_columns(self, name: str, table: pa.Table) -> tuple[Columns, Columns]:
        if name in self._columns:
            return self._columns[name]
        names = [column for column in table.column_names if column != "_weight"]
        if len(names) != 2:
            raise TriangleError(f"{name}: {len(names)} key columns {names}; name the two keys with `columns`")
        return (names[0],), (names[1],)

    def _below_zero(self, k: int, x: int, y: int, m: int) -> str:
        have = multiplicity(self._state.arena, self._state.plan, k, x, y)
        shown = f"{self._domains[k].show(x)}; {self._domains[(k + 1) % 3].show(y)}"
        return f"{self._names[k]}({shown}) has {have} copies, the batch deletes {-m}; it was not applied"

    # -- results -----------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """Returns the number of triangles, with the products of their multiplicities. O(1) for outputs "", else
        O(results)."""
        self._state.check_usable()
        if self.outputs == "":
            return self._state.word(at.C_TOTAL)
        return sum(int(block[-1].sum()) for block in self._blocks())

    def results(self) -> Iterator[pa.RecordBatch]:
        """Yields the results, each once: key columns of the free variables and `multiplicity`.

        Delay in steps: constant for "" and "abc", N^min{eps, 1 - eps} for "ab", N^(2 min{eps, 1 - eps}) for "a"
        (strategy "eps"). Raises StaleCursorError if an update occurs in between.
        """
        if self.outputs == "":
            if self.count():
                yield pa.record_batch({"multiplicity": pa.array([self.count()], pa.int64())})
            return
        for block in self._blocks():
            columns: dict[str, pa.Array] = {}
            for variable, codes in zip(self.outputs, block[:-1], strict=True):
                arrays = self._domains["abc".index(variable)].decode(codes)
                names = [variable] if len(arrays) == 1 else [f"{variable}{i}" for i in range(len(arrays))]
                columns.update(zip(names, arrays, strict=True))
            columns["multiplicity"] = pa.array(block[-1])
            yield pa.record_batch(columns)

    def _blocks(self) -> Iterator[np.ndarray]:
        """Yields codes and multiplicities, column-major int64[len(outputs) + 1, <= BATCH], in one reused buffer."""
        epoch = self._state.word(at.C_EPOCH)
        out = np.empty((len(self.outputs) + 1, BATCH), dtype=np.int64)
        read = self._read_triples(out) if self.outputs == "abc" else self._read_union(out)
        for rows in read:
            if rows:
                yield out[:, :rows]
            if self._state.word(at.C_EPOCH) != epoch:
                raise StaleCursorError("the relations changed while results were read; call results() again")

    def _read_triples(self, out: np.ndarray) -> Iterator[int]:
        views = np.array(self.plan.results, dtype=np.int64)
        firsts = np.array(["abc".index(self.plan.views[v].key[0]) for v in self.plan.results], dtype=np.int64)
        cursor = np.zeros(8, dtype=np.int64)
        while True:
            rows = self._state.read(triple_rows, cursor, views, firsts, out)
            self._max_delay = max(self._max_delay, int(cursor[MAX_DELAY]))
            yield rows
            if rows < out.shape[1]:
                return

    def _read_union(self, out: np.ndarray) -> Iterator[int]:
        sums = np.array([v for v in self.plan.results if self.plan.views[v].kind != ROOT], dtype=np.int64)
        trees = np.array(
            [
                (v, self.plan.views[v].of, _SHAPES[self.plan.views[v].name])
                for v in self.plan.results
                if self.plan.views[v].kind == ROOT
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        scratch = self._state.scratch()
        hops.format_scratch(scratch, len(scratch))
        cursor = np.zeros(hops.HOPS + 4 * hops.HOP_WORDS, dtype=np.int64)
        while True:
            rows = self._state.read(_union, scratch, cursor, sums, trees, self.outputs == "ab", out)
            self._max_delay = max(self._max_delay, int(cursor[hops.MAX_DELAY]))
            yield rows
            if rows < out.shape[1]:
                return

    # -- inspection ------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Returns n, thresholds, heavy values per column, sizes, rebalancings, operations, bytes. O(|D|)."""
        self._state.check_usable()
        word, base = self._state.word, self._state.word(at.C_BASE)
        heavy = np.zeros(6, dtype=np.int64)
        inspect.heavy_values(self._state.arena, self._state.halves, self._state.plan, heavy)
        return {
            "strategy": self.plan.strategy,
            "N": base,
            "size": word(at.C_SIZE),
            "peak": word(at.C_PEAK),
            "relations": {name: int(inspect.edges(self._state.arena, k)) for k, name in enumerate(self._names)},
            "theta": {
                name: Thresholds.of(base, self._eps[k], word(at.C_SHIFTS + k)).theta
                for k, name in enumerate(self._names)
            },
            "heavy": {f"{name}.{c}": int(heavy[2 * k + c]) for k, name in enumerate(self._names) for c in range(2)},
            "views": {
                view.name: int(inspect.entries(self._state.arena, self._state.plan, i))
                for i, view in enumerate(self.plan.views)
                if view.key
            },
            "major_rebalancings": word(at.C_MAJORS),
            "minor_rebalancings": word(at.C_MINORS),
            "tuples_moved": word(at.C_MOVED),
            "updates": word(at.C_UPDATES),
            "presence_flips": word(at.C_FLIPS),
            "operations": word(at.C_OPS),
            "max_delay": self._max_delay,
            "null_rows": self._null_rows,
            "bytes": self._state.live_bytes,
        }

    def check_invariants(self) -> None:
        """Checks sizes, lists, tables, partition, and every view against its definition. Raises AssertionError.
        Slow."""
        self._state.check_usable()
        invariants.check(self._state)


def _four_columns(rows: np.ndarray) -> np.ndarray:
    try:
        with np.errstate(invalid="raise"):
            rows = np.ascontiguousarray(rows, dtype=np.int64)
    except (FloatingPointError, TypeError, ValueError, OverflowError) as error:
        raise TriangleError(f"rows are int64[n, 4] of (relation, x, y, m): {error}") from None
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise TriangleError(f"rows are int64[n, 4] of (relation, x, y, m), not of shape {rows.shape}")
    return rows


def _net(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns rows with the weights of equal tuples summed, deletions first, and the number of deletions. O(n)."""
    n = len(rows)
    out = np.empty_like(rows)
    slots = np.full(2 << n.bit_length(), -1, dtype=np.int32)
    takes, used = net_rows(rows, np.empty(n, dtype=np.int64), slots, out, SECRET)
    return out[:used], int(takes)


def _named(columns: Any) -> dict[str, tuple[Columns, Columns]]:
    """Returns the key columns of relations by name: the columns of the first key and those of the second."""
    wanted = 'columns= names two keys by relation, such as {"R": ("src", "dst")} or {"R": (["a", "b"], "c")}'
    if not isinstance(columns, Mapping):
        raise TriangleError(f"{wanted}, not {columns!r:.100}")
    found = {}
    for name, pair in columns.items():
        keys = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else ()
        made = [(key,) if isinstance(key, str) else tuple(key) for key in keys if isinstance(key, (str, tuple, list))]
        if len(made) != 2 or not all(isinstance(column, str) for key in made for column in key):
            raise TriangleError(f"{wanted}; of {name!r} it has {pair!r:.100}")
        found[name] = (made[0], made[1])
    return found


def _union(arena: Any, halves: Any, plan: Any, scratch: Any, *arguments: Any) -> int:
    return hops.union_rows(arena, halves, scratch, *arguments)
