"""First-order IVM in plain Python, as a programmer would write it in an afternoon.

Each input has a dict of tuples with their multiplicities and hash indexes (dicts of sets). An update runs one
comprehension of nested loops over the other inputs' indexes. The source text is generated per query, as if written by
hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.checksum import PRIME, factors
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.baselines.changes import PlanChanges
from bench.subjects.baselines.programs import Programs, UnsupportedError
from bench.subjects.subject import SkipError, Totals
from crown.store.zset import Zset
from plans import plan as make_plan

Change = Callable[..., list[tuple[int, ...]]]


def _names(attributes: tuple[str, ...], number: dict[str, int]) -> str:
    """Returns the target or value of a tuple of attributes: a scalar for one attribute, otherwise a tuple."""
    names = [f"x{number[a]}" for a in attributes]
    return names[0] if len(names) == 1 else f"({', '.join(names)}{',' if names else ''})"


def source(programs: Programs) -> str:
    """Returns Python text of one function ``change_<atom>(add, *values)`` per input, which returns the joined
    tuples.
    """
    number = {a: i for i, a in enumerate(programs.attributes)}
    result = f"({', '.join(f'x{number[a]}' for a in programs.out)},)"
    lines = []
    for i, atom in enumerate(programs.atoms):
        (program,) = programs.programs[i]
        lines.append(f"def change_{i}(add, {', '.join(f'x{number[a]}' for a in atom.attributes)}):")
        for j, key in enumerate(programs.relations[i].indexes):
            rest = tuple(a for a in atom.attributes if a not in key)
            lines += [
                f"    k, v = {_names(key, number)}, {_names(rest, number)}",
                "    if add:",
                f"        index_{i}_{j}[k].add(v)",
                "    else:",
                f"        index_{i}_{j}[k].discard(v)",
                f"        if not index_{i}_{j}[k]:",
                f"            del index_{i}_{j}[k]",
            ]
        loops = []
        for step in program.steps:
            relation = programs.relations[step.relation]
            key = relation.indexes[step.index]
            found = f"index_{step.relation}_{step.index}"
            loops.append(
                f"for {_names(step.binds, number) if step.binds else '_'} in {found}.get({_names(key, number)}, ())"
            )
        lines.append(f"    return [{result} {' '.join(loops)}]" if loops else f"    return [{result}]")
    return "\n".join(lines)


class PythonIvm:
    """The plain Python baseline; delta mode only."""

    def __init__(self, loaded: Loaded, mode: str) -> None:
        if mode != "delta":
            raise SkipError(f"the Python baseline has no mode {mode}")
        plan = make_plan(loaded.sql, loaded.schema)
        try:
            programs = Programs(plan).first_order()
        except UnsupportedError as error:
            raise SkipError(str(error)) from None
        space: dict[str, Any] = {}
        for i, relation in enumerate(programs.relations):
            for j in range(len(relation.indexes)):
                space[f"index_{i}_{j}"] = defaultdict(set)
        exec(compile(source(programs), "first-order", "exec"), space)
        self._change: dict[int, Change] = {atom.node: space[f"change_{i}"] for i, atom in enumerate(programs.atoms)}
        self._copies: dict[int, dict[tuple[int, ...], int]] = {atom.node: {} for atom in programs.atoms}
        self._support: dict[tuple[int, ...], int] | None = None if programs.full else {}
        self._preparer = PlanChanges(plan, _no_strings)
        self._factors = factors(len(plan.output)).tolist()
        self._checking = False
        self._count = self._sum = 0

    def checking(self) -> None:
        """Sums up the delivered rows."""
        self._checking = True

    def apply(self, batch: Batch) -> int:
        """Applies all deletions, then all insertions; every delta is a tuple in a list that is dropped."""
        prepared = self._preparer.prepare(batch)
        delivered = 0
        for sign in (-1, 1):
            for change in prepared.changes:
                for alias, rows in change.of_aliases(sign):
                    delivered += self._rows(alias.node, rows, sign)
        return delivered

    def _rows(self, node: int, rows: Zset, sign: int) -> int:
        """Applies tuples of one input. Returns the number of deltas."""
        delivered = 0
        copies, propagate = self._copies[node], self._change[node]
        for row, weight in zip(map(tuple, rows.rows.tolist()), rows.weights.tolist(), strict=True):
            before = copies.get(row, 0)
            after = max(before + weight, 0)
            if after:
                copies[row] = after
            else:
                copies.pop(row, None)
            if (before == 0) != (after == 0):
                deltas = propagate(sign > 0, *row)
                if self._support is not None:
                    deltas = self._turned(deltas, sign)
                delivered += len(deltas)
                if self._checking:
                    self._follow(deltas, sign)
        return delivered

    def _turned(self, deltas: list[tuple[int, ...]], sign: int) -> list[tuple[int, ...]]:
        """Returns the output tuples whose support became positive or zero."""
        support = self._support
        assert support is not None
        out = []
        for row in deltas:
            before = support.get(row, 0)
            if before + sign:
                support[row] = before + sign
            else:
                del support[row]
            if before == 0 or before + sign == 0:
                out.append(row)
        return out

    def _follow(self, deltas: list[tuple[int, ...]], sign: int) -> None:
        self._count += sign * len(deltas)
        for row in deltas:
            h = sum((value % PRIME) * factor for value, factor in zip(row, self._factors, strict=True)) % PRIME
            self._sum += sign * (h * h % PRIME)

    def load(self, batch: Batch) -> None:
        """Does the same as ``apply``."""
        self.apply(batch)

    def enumerate(self) -> int:
        """Raises SkipError: no baseline enumerates."""
        raise SkipError("the baselines deliver deltas only")

    def totals(self) -> Totals:
        """Returns the net count and checksum of all deltas so far."""
        return Totals(self._count, self._sum)

    def state_bytes(self) -> None:
        """Returns None: Python objects are of unknown size."""

    def stats(self) -> dict[str, Any]:
        """Returns no counters."""
        return {}

    def close(self) -> None:
        """Does nothing: the subject holds only memory."""


def _no_strings(array: pa.Array, add: bool) -> np.ndarray:
    raise SkipError("the Python baseline takes integer columns only")
