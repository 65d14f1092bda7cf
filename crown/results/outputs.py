"""From rows of the free attributes to the outputs that the user asked for; a plan has one of two such mappings.

Most queries output free attributes as they are: nothing is evaluated, and codes stay codes. Else rows are decoded,
residual predicates filter them, and output expressions are evaluated on what is left.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from crown.store.codec import Extern, Intern, decode, encode
from crown.store.flat import flags
from crown.store.relations import never_null
from crown.store.zset import Zset
from plans.plan import Plan
from plans.schema import arrow_type


class Outputs(Protocol):
    """A mapping of blocks.

    ``words``: which word of a row of the free attributes each output is, and whether it may be NULL; None if that is
    not all.
    """

    words: list[tuple[int, bool]] | None

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the output columns for a block of rows of the free attributes, and their weights.

        They may lie in the block's memory, which nobody may write to any more.
        """
        ...

    def codes(self, block: Zset) -> Zset:
        """Returns the output tuples for such a block, with its payload, in new memory; equal ones have equal codes.

        The block may be overwritten afterwards.
        """
        ...


class PlainOutputs:
    """Every output is a free attribute."""

    def __init__(self, plan: Plan, extern: Extern) -> None:
        self._extern = extern
        valid = never_null(plan)
        self._positions = [plan.free.index(output.expr.value) for output in plan.output]
        kinds = [(output.type, output.expr.value not in valid) for output in plan.output]
        self._columns = [(i, kind, nullable) for i, (kind, nullable) in zip(self._positions, kinds, strict=True)]
        self.words: list[tuple[int, bool]] | None = [(i, nullable) for i, _, nullable in self._columns]

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """See ``Outputs``. O(codes)."""
        columns = block.columns()
        return [decode(columns[i], kind, self._extern, nullable) for i, kind, nullable in self._columns], block.weights

    def codes(self, block: Zset) -> Zset:
        """See ``Outputs``. O(codes)."""
        payload = None if block.payload is None else block.payload.copy()
        return Zset.of_columns(block.columns()[self._positions], block.weights, payload)


class ComputedOutputs:
    """Some output is an expression, or a residual predicate filters what is enumerated."""

    words: list[tuple[int, bool]] | None = None

    def __init__(self, plan: Plan, intern: Intern, extern: Extern) -> None:
        self._plan = plan
        self._intern = intern
        self._extern = extern
        self._kinds = [(a, plan.attributes[a].type) for a in plan.free]

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """See ``Outputs``. O(codes)."""
        arrays, kept = self._kept(block)
        return arrays, block.weights[kept]

    def _kept(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the output columns, and the positions in the block of the rows that they are of."""
        columns = block.columns()
        named = {a: decode(columns[i], kind, self._extern) for i, (a, kind) in enumerate(self._kinds)}
        named, kept = filtered(self._plan, named, np.arange(len(block)))
        return computed(self._plan, named, len(kept)), kept

    def codes(self, block: Zset) -> Zset:
        """See ``Outputs``. O(codes)."""
        arrays, kept = self._kept(block)
        codes = np.empty((len(arrays), len(kept)), np.int64)
        for i, (array, output) in enumerate(zip(arrays, self._plan.output, strict=True)):
            codes[i] = encode(array, output.type, self._intern)
        payload = None if block.payload is None else block.payload[:, kept]
        return Zset.of_columns(codes, block.weights[kept], payload)


def outputs_of(plan: Plan, intern: Intern, extern: Extern) -> Outputs:
    """Returns the mapping that a plan needs."""
    plain = is_plain(plan) and not plan.residual
    return PlainOutputs(plan, extern) if plain else ComputedOutputs(plan, intern, extern)


def is_plain(plan: Plan) -> bool:
    """Returns True if every output is a free attribute as it is."""
    return all(o.expr.op == "col" and o.type == plan.attributes[o.expr.value].type for o in plan.output)


def filtered(plan: Plan, named: dict[str, pa.Array], weights: np.ndarray) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns the rows (columns by free attribute) for which all residual predicates are TRUE, and their weights."""
    for predicate in plan.residual:
        verdict = predicate.evaluate(named, len(weights)).fill_null(False)
        named = {a: array.filter(verdict) for a, array in named.items()}
        weights = weights[flags(verdict)]
    return named, weights


def computed(plan: Plan, named: dict[str, pa.Array], n: int) -> list[pa.Array]:
    """Returns the output columns of ``n`` rows, columns by free attribute."""
    return [o.expr.evaluate(named, n).cast(arrow_type(o.type)) for o in plan.output]
