"""Record batches of tuples in codes: from a Z-set to Arrow, in one step.

An array of pyarrow takes a microsecond to make, and a record batch of them some more. What Arrow sends from process to
process is one piece of memory: a message that says where the buffers of all columns lie, and these buffers. To read it
takes the same time however many columns there are, and copies nothing. So a kernel writes the message. Two messages of
a schema differ in a few words only, which are found once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from crown.kernels.batches import BIT, HALF, PAIR, WORD, write_record
from crown.store.codec import Extern, decode, uses_dictionary
from crown.store.flat import integers
from crown.store.zset import Zset

SLICE = 1 << 16  # rows of a record batch
_FORMS = {"bool": BIT, "int32": HALF, "date": HALF}
_HEADER, _BODY = 2, 3  # fields of a message, and of the record batch that is its header
_LENGTH, _NODES, _BUFFERS = 0, 1, 2


class Records:
    """Makes record batches of ``schema``: columns of some ``kinds``, and the weights if it has one column more.

    ``words``: where in a tuple the columns are, if not in their order; ``nullable``: which of them may be NULL, if not
    all. ``extern`` gives the values of codes of the dictionary: columns of such are made one by one.
    """

    def __init__(
        self,
        schema: pa.Schema,
        kinds: Sequence[str],
        extern: Extern,
        words: Sequence[int] | None = None,
        nullable: Sequence[bool] | None = None,
    ) -> None:
        self._schema = schema
        self._extern = extern
        self._weighed = len(schema) > len(kinds)
        self._columns = list(zip(words or range(len(kinds)), kinds, nullable or [True] * len(kinds), strict=True))
        self._whole = len(schema) > 0 and not any(map(uses_dictionary, kinds))
        if self._whole:
            forms = [PAIR if kind.startswith("decimal") else _FORMS.get(kind, WORD) for kind in kinds]
            self._row = len(schema) + forms.count(PAIR)  # words that a row takes, at most
            places = [(word, form, int(may)) for (word, _, may), form in zip(self._columns, forms, strict=True)]
            message = _message(schema)
            fixed = [*_places(message), int(self._weighed)]
            self._places = np.array([*fixed, *(number for place in places for number in place)], np.int64)
            self._template = np.frombuffer(message, np.int64).copy()

    def batches(self, tuples: Zset) -> Iterator[pa.RecordBatch]:
        """Yields record batches of at most ``SLICE`` tuples; nobody may write to these any more. O(codes)."""
        if 0 < len(tuples) <= SLICE:
            yield self.batch(tuples)
            return
        for start in range(0, len(tuples), SLICE):
            yield self.batch(tuples[start : start + SLICE])

    def batch(self, tuples: Zset) -> pa.RecordBatch:
        """Returns a record batch of tuples to which nobody writes any more. O(codes)."""
        rows = tuples.rows
        if not self._whole or not len(rows):
            return self._one_by_one(tuples)
        if rows.flags.c_contiguous:
            return self.written(rows.reshape(-1), 1, rows.shape[1], np.ascontiguousarray(tuples.weights))
        columns = np.ascontiguousarray(rows.T)
        return self.written(columns.reshape(-1), columns.shape[1], 1, np.ascontiguousarray(tuples.weights))

    def written(self, values: np.ndarray, across: int, down: int, weights: np.ndarray) -> pa.RecordBatch:
        """Returns a record batch, in memory of its own, of as many tuples as there are ``weights``.

        Word ``c`` of tuple ``i`` is ``values[c * across + i * down]``. Not for columns with values of the dictionary.
        """
        n = len(weights)
        most = len(self._template) + n * self._row + len(self._columns) * (n // 64 + 1)
        out = np.empty(most, np.int64)
        write_record(values, across, down, weights, self._template, self._places, out)
        return pa.ipc.read_record_batch(pa.py_buffer(out), self._schema)

    @property
    def whole(self) -> bool:
        """Returns True if no column has values of the dictionary."""
        return self._whole

    def _one_by_one(self, tuples: Zset) -> pa.RecordBatch:
        columns = tuples.columns()
        arrays = [
            decode(np.ascontiguousarray(columns[word]), kind, self._extern, may) for word, kind, may in self._columns
        ]
        if self._weighed:
            arrays.append(integers(np.ascontiguousarray(tuples.weights), pa.int64()))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _message(schema: pa.Schema) -> bytes:
    """Returns the message of a record batch of one row, up to the body."""
    row = pa.RecordBatch.from_arrays([_one(field.type) for field in schema], schema=schema)
    message = row.serialize().to_pybytes()
    return message[: 8 + struct.unpack_from("<i", message, 4)[0]]


def _one(type_: pa.DataType) -> pa.Array:
    """Returns an array of one value, which is not NULL."""
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(bytes(16))], 0)


def _places(message: bytes) -> list[int]:
    """Returns at which words of a message the number of rows is, the bytes of the body, the nodes and the buffers.

    A message is a FlatBuffer: https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
    """
    root = _there(message, 8)
    header = _there(message, _field(message, root, _HEADER))
    nodes, buffers = (_there(message, _field(message, header, number)) + 4 for number in (_NODES, _BUFFERS))
    places = [_field(message, header, _LENGTH), _field(message, root, _BODY), nodes, buffers]
    assert not any(place % 8 for place in places), "numbers of 64 bits are aligned"
    return [place // 8 for place in places]


def _there(message: bytes, at: int) -> int:
    """Returns where the offset at ``at`` leads."""
    return at + int(struct.unpack_from("<I", message, at)[0])


def _field(message: bytes, table: int, number: int) -> int:
    """Returns where a field of a table is."""
    fields = table - int(struct.unpack_from("<i", message, table)[0])
    return table + int(struct.unpack_from("<H", message, fields + 4 + 2 * number)[0])
