"""Converts rows of the free attributes of a join core to output tuples and record batches.

Most queries output free attributes unchanged: nothing is evaluated, and codes stay codes. Otherwise rows are decoded,
residual predicates filter them, and output expressions are evaluated on the rest. A plan has one of these mappings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from crown.engine.buffers import Buffers
from crown.ingest.changes import WEIGHT
from crown.results.columns import Frame, NativeFeed, Projection
from crown.store.arrow_buffers import integers
from crown.store.codec import Intern, decode, encode, uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.records import Records
from crown.store.zset import Zset
from plans.plan import Output, Plan
from plans.programs.stored_relations import never_null
from plans.types import arrow_type


class OutputHead:
    """Maps blocks of the free attributes to output codes or to Arrow columns, and makes record batches. Stateless.

    ``width``: the number of output columns. If nothing is evaluated, ``records`` makes record batches of blocks, and
    ``places`` are the words of a row that are outputs. ``reads`` and ``native_feed``: see ``Outputs``.
    """

    def __init__(self, plan: Plan, dictionary: Dictionary) -> None:
        self._extern = dictionary.extern
        self._kinds = [o.type for o in plan.output]
        self.width = len(self._kinds)
        self._outputs = outputs_of(plan, dictionary)
        self.schema = pa.schema([(o.name, arrow_type(o.type)) for o in plan.output])
        self.delta_schema = self.schema.append(pa.field(WEIGHT, pa.int64()))
        self._tuples = Records(self.delta_schema, self._kinds, dictionary)
        self.nothing = self._tuples.batch(Zset.empty(len(self._kinds)))
        self.records: Records | None = None
        self.places: list[int] | None = None
        self.reads, self.native_feed = self._outputs.reads, self._outputs.native_feed
        if self._outputs.words is not None:
            words, nullable = zip(*self._outputs.words, strict=True) if self._kinds else ((), ())
            self.records = Records(self.delta_schema, self._kinds, dictionary, words, nullable)
            self.places = list(words)
        # The number of words that ``deltas`` writes before the columns of a buffer; 0 if it makes no message of the
        # buffer.
        self.margin = self.records.margin if self.records is not None and plan.payload is None else 0

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the output columns for a block of the free attributes, and the weights. See ``Outputs.columns``."""
        return self._outputs.columns(block)

    def codes(self, block: Zset) -> Zset:
        """Returns the output tuples for a block of the free attributes, in new memory. See ``Outputs.codes``."""
        return self._outputs.codes(block)

    def decoded(self, tuples: Zset) -> list[pa.Array]:
        """Returns the output columns of output tuples, in new memory."""
        columns = tuples.columns()
        return [decode(columns[i].copy(), kind, self._extern) for i, kind in enumerate(self._kinds)]

    def rows(self, columns: Sequence[pa.Array], n: int) -> pa.RecordBatch:
        """Returns a batch of ``n`` result rows. A boolean query has rows without columns."""
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch(self, columns: Sequence[pa.Array], weights: np.ndarray) -> pa.RecordBatch:
        """Returns a delta batch."""
        return pa.RecordBatch.from_arrays([*columns, integers(weights, pa.int64())], schema=self.delta_schema)

    def deltas(self, block: Zset, buffers: Buffers) -> pa.RecordBatch:
        """Returns the delta batch of a block of the free attributes, without payload, in the memory of ``buffers``."""
        if self.records is not None and buffers.copies(block):
            out = buffers.out
            return self.records.written(out.reshape(-1), out.shape[1], 1, block.weights)
        if self.records is not None and self.margin:
            rows, memory = buffers.out.shape[1], buffers.hand_over()
            batch = self.records.placed(memory, rows, len(block), int(block.weights[0]))
            return self.batch(*self.columns(block)) if batch is None else batch
        return self.batch(*self.columns(buffers.detach(block)))

    def batches(self, net: Zset) -> Iterator[pa.RecordBatch]:
        """Yields the delta batches of output tuples, which must not be changed any more."""
        return self._tuples.batches(net)


class Outputs(Protocol):
    """A mapping of blocks of the free attributes to outputs.

    ``words``: for each output, its word in a row of the free attributes and whether it may be NULL; None if some output
    is not such a word. ``reads``: the words of a block that a native call takes, each its word in a row of the free
    attributes, or -1 and the code of a constant; ``native_feed``: the native form of the outputs of these. It is None
    if they are the outputs, or says why there is none.
    """

    words: list[tuple[int, bool]] | None
    reads: list[tuple[int, int]]
    native_feed: NativeFeed | str | None

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the output columns for a block of rows of the free attributes, and their weights.

        The columns may share the block's memory, which must not be written to any more.
        """
        ...

    def codes(self, block: Zset) -> Zset:
        """Returns the output tuples for a block, with its payload, in new memory. Equal tuples have equal codes.

        The block may be overwritten afterwards.
        """
        ...


class PlainOutputs(Outputs):
    """A mapping in which every output is a free attribute, or a constant whose code is a word."""

    native_feed = None

    def __init__(self, plan: Plan, dictionary: Dictionary) -> None:
        self._extern = dictionary.extern
        valid = never_null(plan)
        self._kinds = [(o.type, o.expr.op == "literal" or o.expr.value not in valid) for o in plan.output]
        self._constants = [
            (i, _code(o, dictionary.intern)) for i, o in enumerate(plan.output) if o.expr.op == "literal"
        ]
        self._places = [i for i, o in enumerate(plan.output) if o.expr.op == "col"]
        self._positions = [plan.free.index(plan.output[i].expr.value) for i in self._places]
        found = {i: (-1, code) for i, code in self._constants}
        found |= {i: (at, 0) for i, at in zip(self._places, self._positions, strict=True)}
        self.reads = [found[i] for i in range(len(found))]
        self.words: list[tuple[int, bool]] | None = None
        if not self._constants:
            self.words = [(i, nullable) for i, (_, nullable) in zip(self._positions, self._kinds, strict=True)]

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the output columns of a block. O(codes)."""
        rows = self._picked(block) if self._constants else [block.columns()[i] for i in self._positions]
        arrays = [decode(of, kind, self._extern, may) for of, (kind, may) in zip(rows, self._kinds, strict=True)]
        return arrays, block.weights

    def codes(self, block: Zset) -> Zset:
        """Returns the output tuples of a block. O(codes)."""
        payload = None if block.payload is None else block.payload.copy()
        rows = self._picked(block) if self._constants else block.columns()[self._positions]
        return Zset.of_columns(rows, block.weights, payload)

    def _picked(self, block: Zset) -> np.ndarray:
        """Returns the output columns of a block, including constants, int64[outputs, n], in new memory."""
        found = np.empty((len(self._kinds), len(block)), np.int64)
        found[self._places] = block.columns()[self._positions]
        for i, code in self._constants:
            found[i] = code
        return found


def _code(output: Output, intern: Intern) -> int:
    """Returns the code of a constant output."""
    return int(encode(output.expr.evaluate({}, 1), output.type, intern)[0])


class ComputedOutputs(Outputs):
    """A mapping with output expressions, or with a residual predicate that filters the enumerated rows."""

    words: list[tuple[int, bool]] | None = None

    def __init__(self, plan: Plan, dictionary: Dictionary) -> None:
        self._residual = plan.residual
        self._dictionary = dictionary
        self._places = {a: (i, plan.attributes[a].type) for i, a in enumerate(plan.free)}
        self._projection = Projection(plan.output, {a: type_ for a, (_, type_) in self._places.items()}, self._places)
        self.reads = [(i, 0) for i in range(len(plan.free))]
        self.native_feed = self._projection.native_feed(self._projection.names, self._places, self._residual)

    def columns(self, block: Zset) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the output columns of a block. O(codes)."""
        frame, kept = self._kept(block)
        return [frame[name].array for name in self._projection.names], block.weights[kept]

    def codes(self, block: Zset) -> Zset:
        """Returns the output tuples of a block. O(codes)."""
        frame, kept = self._kept(block)
        payload = None if block.payload is None else block.payload[:, kept]
        return Zset.of_columns(frame.matrix(self._projection.names), block.weights[kept], payload)

    def _kept(self, block: Zset) -> tuple[Frame, np.ndarray]:
        """Returns the outputs of the rows that the predicate keeps, and the positions of these rows in the block."""
        frame, kept = Frame.of(block, self._places, self._dictionary), np.arange(len(block))
        for predicate in self._residual:
            holds = frame.holds(predicate)
            frame, kept = frame.chosen(holds), kept[holds]
        return frame.projected(self._projection), kept


def outputs_of(plan: Plan, dictionary: Dictionary) -> Outputs:
    """Returns the mapping that a plan needs."""
    plain = all(is_free(output, plan) or _is_constant(output) for output in plan.output) and not plan.residual
    return (PlainOutputs if plain else ComputedOutputs)(plan, dictionary)


def is_free(output: Output, plan: Plan) -> bool:
    """Returns True if an output is a free attribute without an expression."""
    expr = output.expr
    return expr.op == "col" and output.type == plan.attributes[expr.value].type


def _is_constant(output: Output) -> bool:
    """Returns True if an output is a constant whose code is not from the dictionary."""
    return output.expr.op == "literal" and output.expr.type == output.type and not uses_dictionary(output.type)
