"""Converts a Z-set in codes to an Arrow record batch in one step.

Making an array of pyarrow takes a microsecond, and making a record batch some more. Arrow IPC sends one piece of
memory: a message with the offsets of the buffers of all columns, and these buffers. Reading a message takes the same
time for any number of columns, and copies nothing. So a kernel writes the message. Two messages of a schema differ in a
few words only, whose positions are computed once. The kernel copies texts from the dictionary. Values with parts have
separate buffers for each part, and months have two words in Arrow: a batch with such a column is made of arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from crown.kernels.batches import BIT, HALF, PAIR, TEXT, WIDE, WORD, place_record, text_words, write_record
from crown.store.arrow_buffers import integers
from crown.store.codec import decode, uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.nested import is_nested

SLICE = 1 << 16  # rows of a record batch
_MANY = 1 << 12  # rows above which columns without copying are made as pyarrow arrays, which costs less
_FORMS = {"bool": BIT, "int32": HALF, "date": HALF, "string": TEXT, "binary": TEXT}
_HEADER, _BODY = 2, 3  # fields of a message, and of the record batch that is its header
_LENGTH, _NODES, _BUFFERS = 0, 1, 2


class Records:
    """Makes record batches of ``schema``: columns of some ``kinds``, and the weights if it has one column more.

    ``words``: the positions of the columns in a tuple; None for their order. ``nullable``: which columns may be NULL;
    None for all. ``dictionary``: the dictionary of text codes.
    """

    def __init__(
        self,
        schema: pa.Schema,
        kinds: Sequence[str],
        dictionary: Dictionary,
        words: Sequence[int] | None = None,
        nullable: Sequence[bool] | None = None,
    ) -> None:
        self._schema = schema
        self._dictionary = dictionary
        self._weighed = len(schema) > len(kinds)
        self._columns = list(zip(words or range(len(kinds)), kinds, nullable or [True] * len(kinds), strict=True))
        forms = [_form(kind) for kind in kinds]
        self._texts = TEXT in forms
        self._row = len(schema) + forms.count(PAIR) + forms.count(WIDE)  # words that a row takes at most, without texts
        self._margin = 0
        self._written = bool(len(schema)) and not any(kind == "months" or is_nested(kind) for kind in kinds)
        if self._written:
            message = _message(schema)
            places = [(word, form, int(may)) for (word, _, may), form in zip(self._columns, forms, strict=True)]
            fixed = [*_places(message), int(self._weighed)]
            self._places = np.array([*fixed, *(number for place in places for number in place)], np.int64)
            self._template = np.frombuffer(message, np.int64).copy()
            self._margin = len(self._template) if set(forms) == {WORD} and self._weighed else 0

    def batches(self, tuples: Zset) -> Iterator[pa.RecordBatch]:
        """Yields record batches of at most ``SLICE`` tuples, which must not be written to any more. O(codes)."""
        if 0 < len(tuples) <= SLICE:
            yield self.batch(tuples)
            return
        for start in range(0, len(tuples), SLICE):
            yield self.batch(tuples[start : start + SLICE])

    def batch(self, tuples: Zset) -> pa.RecordBatch:
        """Returns a record batch of tuples, which must not be written to any more. O(codes and bytes of texts)."""
        rows = tuples.rows
        if len(rows) and self._written and not (tuples.own and not self._texts and len(rows) >= _MANY):
            weights = np.ascontiguousarray(tuples.weights)
            if rows.flags.c_contiguous:
                return self.written(rows.reshape(-1), 1, rows.shape[1], weights)
            columns = np.ascontiguousarray(rows.T)
            return self.written(columns.reshape(-1), columns.shape[1], 1, weights)
        return self._one_by_one(tuples.columns(), tuples.weights, tuples.nulls)

    def written(self, values: np.ndarray, across: int, down: int, weights: np.ndarray) -> pa.RecordBatch:
        """Returns a record batch in new memory with one tuple per weight.

        Word ``c`` of tuple ``i`` is ``values[c * across + i * down]``.
        """
        if not self._written:
            return self._placed(values, across, down, weights)
        n, memory = len(weights), self._dictionary.memory
        most = len(self._template) + n * self._row + len(self._columns) * (n // 64 + 2)
        if self._texts:
            more = text_words(memory[0], values, across, down, n, self._places)
            if more < 0:
                return self._placed(values, across, down, weights)
            most += more
        out = np.empty(most, np.int64)
        write_record(*memory, values, across, down, weights, self._template, self._places, out, out.view(np.uint8))
        return self.read(out)

    def native(self) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Returns the arguments of the kernel ``record``: the message template, the columns, and the words of a row at
        most, without its texts. Returns None if there are columns of parts, which a message alone cannot carry."""
        return (self._template, self._places, self._row) if self._written else None

    def read(self, message: np.ndarray) -> pa.RecordBatch:
        """Returns the record batch of a message, over its memory."""
        return pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def _placed(self, values: np.ndarray, across: int, down: int, weights: np.ndarray) -> pa.RecordBatch:
        """Returns the record batch of ``written``, made of one array per column."""
        last = max((word for word, _, _ in self._columns), default=-1)
        places = np.arange(last + 1)[:, None] * across + np.arange(len(weights)) * down
        return self._one_by_one(values[places], weights)

    def placed(self, memory: np.ndarray, rows: int, n: int, sign: int) -> pa.RecordBatch | None:
        """Returns a record batch over the first ``n`` rows of a kernel's buffer, in its memory, or None if one has a
        NULL.

        O(1), plus the search for NULLs.

        ``memory``: ``margin`` words, then columns of ``rows`` rows. The last column is all 1 or all -1; it becomes
        ``sign``, the weights. The margin is overwritten.
        """
        if not place_record(memory, rows, n, sign, self._template, self._places):
            return None
        return self.read(memory)

    @property
    def margin(self) -> int:
        """Returns how many words ``placed`` writes before the columns of a buffer. Returns 0 if ``placed`` cannot be
        called, because Arrow stores some column in another form than its codes, or there are no weights."""
        return self._margin

    def _one_by_one(self, columns: np.ndarray, weights: np.ndarray, nulls: bool = True) -> pa.RecordBatch:
        """Decodes columns of codes, int64[columns, n], into a record batch. With ``nulls`` False, no code is NULL."""
        extern = self._dictionary.extern
        arrays = [
            decode(np.ascontiguousarray(columns[word]), kind, extern, may and nulls)
            for word, kind, may in self._columns
        ]
        if self._weighed:
            arrays.append(integers(np.ascontiguousarray(weights), pa.int64()))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _form(kind: str) -> int:
    """Returns the form in which Arrow stores values of a type."""
    if kind.startswith("decimal"):
        return WIDE if uses_dictionary(kind) else PAIR
    return _FORMS.get(kind, WORD)


def _message(schema: pa.Schema) -> bytes:
    """Returns the message of a record batch of one row, without the body."""
    row = pa.RecordBatch.from_arrays([_one(field.type) for field in schema], schema=schema)
    message = row.serialize().to_pybytes()
    return message[: 8 + struct.unpack_from("<i", message, 4)[0]]


def _one(type_: pa.DataType) -> pa.Array:
    """Returns an array of one value that is not NULL."""
    buffers = [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")]
    return pa.Array.from_buffers(type_, 1, buffers[: type_.num_buffers], 0)


def _places(message: bytes) -> list[int]:
    """Returns the words of a message that hold the number of rows, the bytes of the body, the nodes and the buffers.

    A message is a FlatBuffer: https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
    """
    root = _there(message, 8)
    header = _there(message, _field(message, root, _HEADER))
    nodes, buffers = (_there(message, _field(message, header, number)) + 4 for number in (_NODES, _BUFFERS))
    places = [_field(message, header, _LENGTH), _field(message, root, _BODY), nodes, buffers]
    assert not any(place % 8 for place in places), "numbers of 64 bits are aligned"
    return [place // 8 for place in places]


def _there(message: bytes, at: int) -> int:
    """Returns the position to which the offset at ``at`` points."""
    return at + int(struct.unpack_from("<I", message, at)[0])


def _field(message: bytes, table: int, number: int) -> int:
    """Returns the position of a field of a table."""
    fields = table - int(struct.unpack_from("<i", message, table)[0])
    return table + int(struct.unpack_from("<H", message, fields + 4 + 2 * number)[0])
