"""From enumerated codes to what the user asked for.

A kernel delivers rows of the plan's free attributes as codes. Most queries output exactly these: decode, attach the
sign, done. Residual predicates filter and computed outputs are evaluated on the decoded columns. Where the mapping to
outputs can merge rows (``plan.support``), a table in the arena counts how many rows stand behind every output tuple,
and a delta leaves only when a count leaves or reaches zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from crown.ingest.changes import WEIGHT, integers
from crown.kernels.batches import consolidate
from crown.store.codec import Extern, Intern, decode, encode
from plans.plan import Plan
from plans.schema import arrow_type
from plans.variables import injective

SLICE = 1 << 16  # rows per emitted batch where rows are gathered first


class OutputHead:
    """Maps blocks of enumerated codes (int64[free attributes, n]) to record batches. Stateless."""

    def __init__(self, plan: Plan, intern: Intern, extern: Extern) -> None:
        self._plan = plan
        self._intern = intern
        self._extern = extern
        self._kinds = [plan.attributes[a].type for a in plan.free]
        column = {a: i for i, a in enumerate(plan.free)}
        plain = all(o.expr.op == "col" and o.type == plan.attributes[o.expr.value].type for o in plan.output)
        # Positions of the outputs among the free attributes, if they are plain columns.
        self._plain = [column[o.expr.value] for o in plan.output] if plain else []
        self.direct = plain and not plan.residual
        self.schema = pa.schema([(o.name, arrow_type(o.type)) for o in plan.output])
        self.delta_schema = self.schema.append(pa.field(WEIGHT, pa.int64()))
        empty = [pa.nulls(0, field.type) for field in self.delta_schema]
        self.nothing = pa.RecordBatch.from_arrays(empty, schema=self.delta_schema)

    @property
    def width(self) -> int:
        """Number of output columns."""
        return len(self._plan.output)

    def columns(self, block: np.ndarray) -> tuple[list[pa.Array], int]:
        """Output columns for a block of codes, and their length.

        Residual predicates applied. The block may be overwritten afterwards.
        """
        n = block.shape[1]
        if self.direct:
            return [decode(block[i].copy(), self._kinds[i], self._extern) for i in self._plain], n
        named = {a: decode(block[i].copy(), self._kinds[i], self._extern) for i, a in enumerate(self._plan.free)}
        named, n = self._residual(named, n)
        return [o.expr.evaluate(named, n).cast(arrow_type(o.type)) for o in self._plan.output], n

    def _residual(self, named: dict[str, pa.Array], n: int) -> tuple[dict[str, pa.Array], int]:
        for predicate in self._plan.residual:
            verdict = predicate.evaluate(named, n).fill_null(False)
            named = {a: array.filter(verdict) for a, array in named.items()}
            n = verdict.true_count
        return named, n

    def codes(self, block: np.ndarray) -> np.ndarray:
        """Output codes (int64[outputs, m]) for a block; equal outputs have equal codes."""
        if self.direct:
            return block[self._plain]
        columns, n = self.columns(block)
        out = np.empty((len(columns), n), np.int64)
        for i, (array, output) in enumerate(zip(columns, self._plan.output, strict=True)):
            out[i] = encode(array, output.type, self._intern)
        return out

    def decoded(self, codes: np.ndarray) -> list[pa.Array]:
        """Output columns for output codes (int64[outputs, n], rows contiguous)."""
        return [decode(codes[i], o.type, self._extern) for i, o in enumerate(self._plan.output)]

    def row(self, values: Mapping[str, Any]) -> list[pa.Array]:
        """One-row output columns for values by output name.

        Raises ChangeError if a name is missing or a value does not fit.
        """
        arrays = []
        for o in self._plan.output:
            if o.name not in values:
                names = ", ".join(x.name for x in self._plan.output)
                raise ChangeError(f"the row lacks output column {o.name!r}; the result has: {names}")
            try:
                arrays.append(pa.array([values[o.name]], arrow_type(o.type)))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ChangeError(f"output column {o.name!r}: {values[o.name]!r} does not fit {o.type}") from error
        return arrays

    def matches(self, block: np.ndarray, arrays: Sequence[pa.Array]) -> bool:
        """Returns True iff some row of a block of codes maps to the one-row output ``arrays``."""
        columns, n = self.columns(block)
        hit = np.ones(n, bool)
        for column, wanted in zip(columns, arrays, strict=True):
            hit &= same_values(column, wanted)
        return bool(hit.any())

    def free_values(self, arrays: Sequence[pa.Array]) -> dict[str, pa.Array] | None:
        """The free attributes behind a one-row output, or None if no enumerated row maps to it.

        Without support counts every free attribute stands in the output, perhaps behind a one-to-one cast, or is
        determined by those that do through a declared key; the latter are left out.
        """
        named: dict[str, pa.Array] = {}
        for o, array in zip(self._plan.output, arrays, strict=True):
            attribute = injective(o.expr)
            if attribute is None:
                continue
            try:
                named.setdefault(attribute, array.cast(arrow_type(self._plan.attributes[attribute].type)))
            except pa.ArrowInvalid:
                return None  # the value is not one that the cast could have made
        if len(named) < len(self._plan.free):
            return named
        _, n = self._residual(named, 1)
        if not n:
            return None
        for o, array in zip(self._plan.output, arrays, strict=True):
            computed = o.expr.evaluate(named, 1).cast(array.type)
            if not same_values(computed, array)[0]:
                return None
        return named

    def rows(self, columns: Sequence[pa.Array], n: int) -> pa.RecordBatch:
        """A batch of ``n`` result rows; a boolean query has rows without columns."""
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch(self, columns: Sequence[pa.Array], weights: np.ndarray) -> pa.RecordBatch:
        """A delta batch."""
        return pa.RecordBatch.from_arrays([*columns, integers(weights, pa.int64())], schema=self.delta_schema)


def same_values(column: pa.Array, wanted: pa.Array) -> np.ndarray:
    """Returns bool[n]: where ``column`` holds the value of the one-row array ``wanted``, as rows are compared.

    By value, because a value that no row has has no code: NULL is NULL, NaN is NaN, -0.0 is 0.0.
    """
    if wanted.null_count:
        return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    same = pc.equal(column, wanted[0])
    if pa.types.is_floating(column.type):
        same = pc.or_(same, pc.and_(pc.is_nan(column), pc.is_nan(wanted[0])))
    return np.asarray(same.fill_null(False).to_numpy(zero_copy_only=False))


class Gathered:
    """The deltas of one batch, gathered as output codes so that what cancels out can be taken out."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._values: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def add(self, codes: np.ndarray, sign: int) -> None:
        """Add a block of output codes (int64[width, n]), all with weight ``sign``."""
        n = codes.shape[1]
        self._values.append(np.ascontiguousarray(codes.T).reshape(-1))
        self._weights.append(np.full(n, sign, np.int64))

    def net(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64[n * width] distinct tuples, int64[n] net weights, none of them 0). Expected O(rows gathered)."""
        if not self._weights:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        values = np.concatenate(self._values)
        weights = np.concatenate(self._weights)
        consolidate(values, self._width, weights)
        keep = weights != 0
        return values.reshape(len(weights), self._width)[keep].reshape(-1), weights[keep]


def sliced(head: OutputHead, values: np.ndarray, weights: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Delta batches of at most ``SLICE`` rows for row-major output codes."""
    table = values.reshape(len(weights), head.width)
    for start in range(0, len(weights), SLICE):
        part = np.ascontiguousarray(table[start : start + SLICE].T)
        yield head.batch(head.decoded(part), weights[start : start + SLICE])
