"""The output head: from codes that leave a join core to record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from crown.engine.buffers import Buffers
from crown.ingest.changes import WEIGHT
from crown.results.outputs import outputs_of
from crown.store.arrow_buffers import integers
from crown.store.codec import decode
from crown.store.dictionary import Dictionary
from crown.store.records import Records
from crown.store.zset import Zset
from plans.plan import Plan
from plans.types import arrow_type


class OutputHead:
    """Maps blocks of the free attributes to output codes or to Arrow columns, and makes record batches. Stateless."""

    def __init__(self, plan: Plan, dictionary: Dictionary) -> None:
        self._extern = dictionary.extern
        self._kinds = [o.type for o in plan.output]
        self._outputs = outputs_of(plan, dictionary.intern, dictionary.extern)
        self.schema = pa.schema([(o.name, arrow_type(o.type)) for o in plan.output])
        self.delta_schema = self.schema.append(pa.field(WEIGHT, pa.int64()))
        self._tuples = Records(self.delta_schema, self._kinds, dictionary)
        self.nothing = self._tuples.batch(Zset.empty(len(self._kinds)))
        self._rows: Records | None = None
        if self._outputs.words is not None:
            words, nullable = zip(*self._outputs.words, strict=True) if self._kinds else ((), ())
            self._rows = Records(self.delta_schema, self._kinds, dictionary, words, nullable)
        # Words that ``deltas`` writes before the columns of a buffer that it takes; 0 if it makes no message of it.
        self.margin = self._rows.margin if self._rows is not None and plan.payload is None else 0

    @property
    def width(self) -> int:
        """Returns the number of output columns."""
        return len(self._kinds)

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
        """Returns a batch of ``n`` result rows; a boolean query has rows without columns."""
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch(self, columns: Sequence[pa.Array], weights: np.ndarray) -> pa.RecordBatch:
        """Returns a delta batch."""
        return pa.RecordBatch.from_arrays([*columns, integers(weights, pa.int64())], schema=self.delta_schema)

    def deltas(self, block: Zset, buffers: Buffers) -> pa.RecordBatch:
        """Returns the delta batch of a block of the free attributes, without payload, that lies in ``buffers``."""
        if self._rows is not None and buffers.keeps(block):
            out = buffers.out
            return self._rows.written(out.reshape(-1), out.shape[1], 1, block.weights)
        if self._rows is not None and self.margin:
            rows, memory = buffers.out.shape[1], buffers.hand_over()
            batch = self._rows.placed(memory, rows, len(block), int(block.weights[0]))
            return self.batch(*self.columns(block)) if batch is None else batch
        return self.batch(*self.columns(buffers.own(block)))

    def batches(self, net: Zset) -> Iterator[pa.RecordBatch]:
        """Yields the delta batches of output tuples that nobody changes any more."""
        return self._tuples.batches(net)
