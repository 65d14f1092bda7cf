"""Builds factorized results, one Arrow row with a list per branch for many result rows, and unfolds them to plain rows.

Once the upper rows of a join tree are fixed, the rows below them in different branches combine freely. So a factorized
row has the columns of the upper rows as plain values, and the columns of each branch as lists of one length. It
represents every combination of one entry per branch. The metadata of a field (``BRANCH``) identifies its branch. Deltas
also have ``_weight``: all rows are inserted, or all are deleted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crown.engine.compile import CompiledPlan
from crown.errors import CrownError
from crown.ingest.changes import WEIGHT
from crown.results.head import is_free
from crown.store.arrow_buffers import integers
from crown.store.codec import Extern, decode
from plans.plan import Plan
from plans.types import arrow_type

BRANCH = b"crown.branch"
"""Key in the metadata of a field: the number of the branch to which its lists belong."""


class FactorizedHead:
    """Makes record batches of factorized rows. Raises CrownError for a plan without factorized rows."""

    def __init__(self, plan: Plan, compiled: CompiledPlan, extern: Extern) -> None:
        if why := _not_factorized(plan):
            raise CrownError(f"factorized=True gives a product per row, and {why}; leave factorized out")
        self.branches = compiled.branches
        self.free = len(plan.free)
        self._extern = extern
        self._kinds = [output.type for output in plan.output]
        self._positions = [plan.free.index(output.expr.value) for output in plan.output]
        self._branch_of = [compiled.branch_of(position) for position in self._positions]
        fields = zip([output.name for output in plan.output], self._kinds, self._branch_of, strict=True)
        self.schema = pa.schema([_field(*field) for field in fields])
        self.delta_schema = self.schema.append(pa.field(WEIGHT, pa.int64()))

    def batch(self, out: np.ndarray, n: int, sign: int | None = None) -> pa.RecordBatch:
        """Returns the first ``n`` rows of an enumeration's buffer, in new memory, with weights ``sign`` if given.

        ``out``: int64[free attributes + branches, capacity], see ``crown.engine.kernels.enumeration.factored``.
        O(entries).
        """
        ends = out[self.free :, :n]
        offsets = np.zeros((self.branches, n + 1), np.int32)
        offsets[:, 1:] = ends
        columns = []
        for position, kind, branch in zip(self._positions, self._kinds, self._branch_of, strict=True):
            used = n if branch < 0 else int(ends[branch, n - 1])
            values = decode(out[position, :used].copy(), kind, self._extern)
            if branch >= 0:
                values = pa.ListArray.from_arrays(integers(offsets[branch], pa.int32()), values)
            columns.append(values)
        if sign is None:
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        weights = integers(np.full(n, sign, np.int64), pa.int64())
        return pa.RecordBatch.from_arrays([*columns, weights], schema=self.delta_schema)


def unfold(data: pa.Table | pa.RecordBatch) -> pa.Table:
    """Returns the plain rows that factorized rows represent, with the columns of the plain result or delta.

    ``data``: the result of ``View.apply(..., factorized=True)``, or a batch of ``View.results(factorized=True)``.

    Raises CrownError if lists of one branch differ in length. O(plain rows), vectorised.

    >>> import crown
    >>> view = crown.view("Q(a, b, c) :- R(a, b), S(a, c).", {name: {"k": "int64", "v": "int64"} for name in "RS"})
    >>> view.update({"R": [(1, 2), (1, 3)]})
    >>> delta = view.apply({"S": [(1, 4)]}, factorized=True)
    >>> delta.to_pylist()
    [{'a': 1, 'b': [2, 3], 'c': [4], '_weight': 1}]
    >>> crown.unfold(delta).to_pylist()
    [{'a': 1, 'b': 2, 'c': 4, '_weight': 1}, {'a': 1, 'b': 3, 'c': 4, '_weight': 1}]
    """
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        raise CrownError(f"unfold takes factorized rows, a pyarrow Table or RecordBatch, not {type(data).__name__}")
    table = pa.table(data).combine_chunks() if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    n = table.num_rows
    branches: dict[bytes, list[int]] = {}
    for i, field in enumerate(table.schema):
        if field.metadata and BRANCH in field.metadata:
            branches.setdefault(field.metadata[BRANCH], []).append(i)
    lists = {i: _list(table.column(i)) for columns in branches.values() for i in columns}
    lengths, total = {}, np.ones(n, np.int64)
    for branch, columns in branches.items():
        lengths[branch] = np.diff(_offsets(lists[columns[0]]))
        for i in columns[1:]:
            if not np.array_equal(np.diff(_offsets(lists[i])), lengths[branch]):
                raise CrownError(
                    f"columns {table.column_names[columns[0]]!r} and {table.column_names[i]!r} are of one branch, but "
                    "have lists of different length; unfold the rows as the view returned them"
                )
        total *= lengths[branch]
    rows = np.repeat(np.arange(n), total)
    rest = np.arange(len(rows)) - np.repeat(np.cumsum(total) - total, total)
    entries: dict[int, np.ndarray] = {}
    for branch, columns in branches.items():
        size = lengths[branch][rows]
        for i in columns:
            entries[i] = _offsets(lists[i])[rows] + rest % size
        rest //= size
    columns_out, fields = [], []
    for i, field in enumerate(table.schema):
        if i in entries:
            columns_out.append(lists[i].values.take(pa.array(entries[i])))
            fields.append(pa.field(field.name, field.type.value_type))
        else:
            columns_out.append(table.column(i).take(pa.array(rows)))
            fields.append(field)
    return pa.Table.from_arrays(columns_out, schema=pa.schema(fields))


def _not_factorized(plan: Plan) -> str:
    """Returns why the rows of a plan cannot be factorized, or an empty text if they can."""
    if not plan.output:
        return "this query only tests whether there is a row, and has no columns"
    if plan.payload is not None:
        return "the rows of this query have multiplicities or sums of their own"
    if plan.support or not plan.consolidated:
        return "this query projects rows of its join onto one another"
    if plan.residual or not all(is_free(output, plan) for output in plan.output):
        return "this query computes columns, or tests a predicate, on the rows of its join"
    return ""


def _field(name: str, kind: str, branch: int) -> pa.Field:
    target = arrow_type(kind)
    if branch < 0:
        return pa.field(name, target)
    return pa.field(name, pa.list_(target), metadata={BRANCH: str(branch).encode()})


def _list(column: pa.ChunkedArray) -> pa.ListArray:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _offsets(array: pa.ListArray) -> np.ndarray:
    return np.asarray(array.offsets).astype(np.int64)
