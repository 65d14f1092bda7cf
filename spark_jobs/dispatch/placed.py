"""Places rows: finds the cells of a grid that read a row, and the occurrences of its relation that read it there.

``dispatch.shuffle`` has Spark compute the same for changes. This module does it without Spark, for rows of stopped
cells and for rows that cells read from files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from crown.store.arrow_buffers import flags
from plans.expressions.build import Expr
from plans.plan import BagAtom, Plan
from plans.programs.reads import occurrences_of_plan
from plans.search.cells.cuts import Role
from plans.search.cells.shares import Grid
from plans.types import arrow_type, decimal_parts
from spark_jobs.dispatch.hashing import bucket, xxhash64

_SAME = {"eq", "ne", "lt", "le", "gt", "ge", "nseq", "and", "or", "not", "isnull", "in", "col", "literal"}
_MAX_DEPTH = 100
_PUSHED_TYPES = {"bool", "int32", "int64", "float64", "string", "date"}


@dataclass
class Placed:
    """The places of ``rows`` rows in a grid. Per occurrence (bit of a mask): its coordinates along the axes that it
    has, int64[rows] each, and a flag for each row that it reads (bool[rows]).
    """

    grid: Grid
    rows: int
    readers: list[tuple[int, Mapping[int, np.ndarray], np.ndarray]] = field(default_factory=list)

    def masks(self, cell: int) -> np.ndarray:
        """Returns the masks (int64[rows]) of the rows in a cell; 0: the row is not there."""
        found = np.zeros(self.rows, np.int64)
        for bit, coordinates, reads in self.readers:
            here = reads.copy()
            for axis, values in coordinates.items():
                here &= values == cell // self.grid.stride(axis) % self.grid.shares[axis]
            found |= here.astype(np.int64) << bit
        return found

    def first(self) -> np.ndarray:
        """Returns the smallest cell that contains each row, int64[rows]; the number of cells if no cell does."""
        found = np.full(self.rows, self.grid.cells, np.int64)
        for _, coordinates, reads in self.readers:
            mine = sum((values * self.grid.stride(axis) for axis, values in coordinates.items()), np.int64(0))
            found = np.where(reads, np.minimum(found, mine), found)
        return found


def of_plan(plan: Plan, grid: Grid, relation: str, rows: pa.Table, whole: bool) -> Placed:
    """Returns the places of rows of a base relation in the cells of a plan. ``whole``: also places rows that no
    occurrence reads.
    """
    columns = {name.lower(): rows.column(name).combine_chunks() for name in rows.column_names}
    placed, n = Placed(grid, rows.num_rows), rows.num_rows
    for bit, atom in enumerate(occurrences_of_plan(plan)):
        if atom.relation.lower() == relation.lower():
            values = {a: columns[name.lower()] for a, name in zip(atom.attributes, atom.columns, strict=True)}
            reads = met(() if whole else pushed(atom), columns, n)
            placed.readers.append((bit, _coordinates(plan, grid, values, n), reads))
    return placed


def _coordinates(plan: Plan, grid: Grid, values: Mapping[str, pa.Array], rows: int) -> dict[int, np.ndarray]:
    found = {}
    for axis, (attribute, share) in enumerate(zip(grid.attributes, grid.shares, strict=True)):
        if attribute in values:
            column = _typed(values[attribute], plan.attributes[attribute].type)
            found[axis] = bucket(xxhash64([column], rows, first=axis), share)
    return found


def _typed(values: pa.Array, type_: str) -> pa.Array:
    return values if pa.types.is_interval(values.type) else values.cast(arrow_type(type_))


def of_role(role: Role, cells: int, rows: pa.Table) -> np.ndarray | None:
    """Returns the cell of each row of a base relation in a role, int64[rows]; None: every row is in every cell."""
    if not role.hashed or cells == 1:
        return None
    names: Sequence[str] = rows.column_names
    own = {name.lower(): name for name in names}
    columns = [_typed(rows.column(own[name.lower()]).combine_chunks(), kind) for name, kind in role.hashed]
    return bucket(xxhash64(columns, rows.num_rows, first=0), cells)


def lacking(role: Role, names: Iterable[str]) -> list[str]:
    """Returns the columns by which a role is hashed and that are not among ``names``."""
    own = {name.lower() for name in names}
    return [name for name, _ in role.hashed if name.lower() not in own]


def pushed(atom: BagAtom) -> list[Expr]:
    """Returns the conjuncts of an atom's predicate that are evaluated before the cells: a row that does not meet them
    has no bit for the atom.
    """
    return [part for part in (atom.predicate.conjuncts() if atom.predicate is not None else ()) if _same_in_spark(part)]


def met(conditions: Iterable[Expr], columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
    """Returns a flag for each row that meets all conditions (bool[rows]); ``columns``: by name in lower case."""
    found = np.ones(rows, bool)
    for condition in conditions:
        verdict = condition.evaluate({name: columns[name.lower()] for name in condition.columns}, rows)
        found &= flags(verdict.fill_null(False))
    return found


def demanded(atoms: Iterable[BagAtom]) -> tuple[list[Expr], ...]:
    """Returns the conditions of each occurrence of a relation. A row is read if it meets all conditions of one
    occurrence. Empty if an occurrence has no condition, because it reads all rows.
    """
    found = tuple(pushed(atom) for atom in atoms)
    return found if all(found) else ()


def _same_in_spark(expr: Expr) -> bool:
    if expr.depth > _MAX_DEPTH:  # Spark's optimizer recurses
        return False
    known = expr.type in _PUSHED_TYPES or expr.type == "null" or decimal_parts(expr.type) is not None
    safe_cast = (
        expr.op == "cast" and expr.type in ("int32", "int64", "float64") and expr.args[0].type in ("int32", "int64")
    )
    return known and (expr.op in _SAME or safe_cast) and all(_same_in_spark(arg) for arg in expr.args)
