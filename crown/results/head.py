"""The output head: from codes that leave a join core to record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from crown.engine.buffers import Buffers
from crown.ingest.changes import WEIGHT
from crown.results.outputs import outputs_of
from crown.store.codec import Extern, Intern, decode
from crown.store.flat import integers
from crown.store.records import Records
from crown.store.zset import Zset
from plans.plan import Plan
from plans.schema import arrow_type


class OutputHead:
    """Maps blocks of the free attributes to output codes or to Arrow columns, and makes record batches. Stateless."""

    def __init__(self, plan: Plan, intern: Intern, extern: Extern) -> None:
        self._extern = extern
        self._kinds = [o.type for o in plan.output]
        self._outputs = outputs_of(plan, intern, extern)
        self.schema = pa.schema([(o.name, arrow_type(o.type)) for o in plan.output])
        self.delta_schema = self.schema.append(pa.field(WEIGHT, pa.int64()))
        self._tuples = Records(self.delta_schema, self._kinds, extern)
        self.nothing = self._tuples.batch(Zset.empty(len(self._kinds)))
        self._rows: Records | None = None
        if self._outputs.words is not None:
            words, nullable = zip(*self._outputs.words, strict=True) if self._kinds else ((), ())
            rows = Records(self.delta_schema, self._kinds, extern, words, nullable)
            self._rows = rows if rows.whole else None

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
        return self.batch(*self.columns(buffers.own(block)))

    def batches(self, net: Zset) -> Iterator[pa.RecordBatch]:
        """Yields the delta batches of output tuples that nobody changes any more."""
        return self._tuples.batches(net)
