"""Packs nested values into words: equal values have equal words, so they can be compared, grouped and joined.

A value is the words of its parts, one after the other, as in Arrow: an array is its number of elements followed by the
words of all elements; a struct is a validity word followed by the words of each field. A text is its number of bytes
followed by its bytes, padded to a word. NULL is -2^63. A double has one zero and one NaN. A map is the array of its
entries, which `mapped` sorts by key.

Everything is computed for whole columns: a run of words per row and part, and the runs of a row one after the other.
O(words).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.arrays import float_words, on_arrays, validity, words
from plans.nested import ARRAY, STRUCT, is_nested, parts
from plans.types import ONE_WORD_DIGITS, arrow_type

NULL = -(2**63)


class ReservedError(ValueError):
    """An integer or a time in row `row` has the code of NULL."""

    def __init__(self, row: int, type_: str) -> None:
        self.row = row
        super().__init__(f"the {type_} value {NULL} is reserved for NULL; store it in a decimal or string column")


class _Runs(NamedTuple):
    """Words, of which row i has those from `bounds[i]` to `bounds[i + 1]` (int64[rows + 1])."""

    words: np.ndarray
    bounds: np.ndarray


def packed(array: pa.Array, type_: str, strict: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Returns the words of the values of an array of a nested type, and the bounds of each value: int64[n + 1].

    `strict`: raises ReservedError for a value that could not be distinguished from NULL.
    """
    runs = _packed(array, type_, np.arange(len(array) + 1), strict)
    sizes = np.array([np.diff(run.bounds) for run in runs])
    ends = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    out = np.empty(ends[-1], np.int64)
    starts = ends[:-1].copy()
    for run, size in zip(runs, sizes, strict=True):
        out[_places(starts, size)] = run.words
        starts += size
    return out, ends


def comparable(value: Any, type_: str) -> Any:
    """Returns nested values, an array or a scalar, as bytes that are equal if the values are."""
    return on_arrays(lambda array: _bytes(array, type_), value)


def _bytes(array: pa.Array, type_: str) -> pa.Array:
    found, ends = packed(array, type_, False)
    buffers = [None, pa.py_buffer(8 * ends), pa.py_buffer(found)]
    made = pa.Array.from_buffers(pa.large_binary(), len(array), buffers, 0)
    return pc.if_else(pc.is_valid(array), made, pa.scalar(None, made.type)) if array.null_count else made


def _places(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the positions of consecutive runs that begin at `starts`."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _packed(array: pa.Array, type_: str, bounds: np.ndarray, strict: bool) -> list[_Runs]:
    """Returns the runs of values, of which row i has those from `bounds[i]` to `bounds[i + 1]`."""
    if is_nested(type_):
        return _packed_parts(array, type_, bounds, strict)
    if type_ in ("string", "binary"):
        return _packed_texts(array, bounds)
    if pa.types.is_decimal(array.type):
        pairs = np.where(validity(array)[:, None], words(array, np.int64, 2).reshape(-1, 2), NULL)
        if array.type.precision > ONE_WORD_DIGITS:
            return [_Runs(pairs.reshape(-1), 2 * bounds)]
        return [_Runs(pairs[:, 0], bounds)]
    there = validity(array)
    if type_ == "float64":
        found = float_words(words(array, np.float64))
    elif type_ == "bool":
        found = words(array.cast(pa.int8()), np.int8).astype(np.int64)
    else:
        found = words(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64)
        reserved = there & (found == NULL)
        if strict and reserved.any():
            raise ReservedError(int(bounds.searchsorted(reserved.argmax(), "right")) - 1, type_)
    return [_Runs(np.where(there, found, NULL), bounds)]


def _packed_texts(array: pa.Array, bounds: np.ndarray) -> list[_Runs]:
    there = validity(array)
    texts = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "") if array.null_count else array
    ends = np.zeros(1, np.int64)
    data = np.empty(0, np.uint8)
    if len(texts):
        places = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[places[0] : places[-1]]
        ends = places.astype(np.int64) - places[0]
    sizes = np.diff(ends[bounds])
    filled = -(-sizes // 8)
    rows = np.concatenate([[0], np.cumsum(filled)])
    out = np.zeros(8 * rows[-1], np.uint8)
    out[_places(8 * rows[:-1], sizes)] = data
    return [_Runs(np.where(there, np.diff(ends), NULL), bounds), _Runs(out.view(np.int64), rows)]


def _packed_parts(array: pa.Array, type_: str, bounds: np.ndarray, strict: bool) -> list[_Runs]:
    made = parts(type_)
    assert made is not None, "a nested type has parts"
    there = validity(array)
    if made.kind == STRUCT:
        found = [_Runs(np.where(there, 1, NULL), bounds)]
        for field, part in zip(array.flatten(), made.types, strict=True):
            found += _packed(field, part, bounds, strict)
        return found
    sizes, elements = elements_of(array)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    inner = ends[bounds]
    found = [_Runs(np.where(there, sizes, NULL), bounds)]
    if made.kind == ARRAY:
        return found + _packed(elements, made.types[0], inner, strict)
    for part, column in zip(made.types, elements.flatten(), strict=True):
        found += _packed(column, part, inner, strict)
    return found


def elements_of(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Returns the number of elements of each array, or entries of each map, int64[n], 0 where it is NULL; and the
    concatenated elements. An entry is a struct."""
    if pa.types.is_map(array.type):
        entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        array = array.cast(pa.list_(entry))
    return words(pc.list_value_length(array), np.int32).astype(np.int64), array.flatten()


def places_of(sizes: np.ndarray) -> np.ndarray:
    """Returns the position of each element in its array, from 0."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def listed(sizes: np.ndarray, elements: pa.Array, type_: pa.DataType, valid: np.ndarray) -> pa.Array:
    """Returns arrays, or maps, of `type_` with these numbers of elements each; NULL where `valid` is False."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_map(type_):
        entry = pa.struct([type_.key_field, type_.item_field])
        elements = pa.StructArray.from_arrays(elements.flatten(), fields=list(entry))
    elif elements.type != type_.value_type:
        elements = elements.cast(type_.value_type)
    return pa.Array.from_buffers(type_, len(sizes), [bits, pa.py_buffer(ends)], children=[elements])


def mapped(sizes: np.ndarray, keys: pa.Array, items: pa.Array, type_: pa.DataType, valid: np.ndarray) -> pa.Array:
    """Returns maps of `type_` with these numbers of entries each, sorted by key; NULL where `valid` is False, or where
    a key is NULL or repeated."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    order = pc.sort_indices(pa.table({"of": rows, "key": keys}), BY_KEY)
    keys, items = keys.take(order), items.take(order)
    wrong = ~validity(keys)
    if len(keys) > 1:
        same = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False).to_numpy(zero_copy_only=False)
        wrong[1:] |= same & (rows[1:] == rows[:-1])
    valid = valid.copy()
    valid[rows[wrong]] = False
    kept = valid[rows]
    entries = pa.StructArray.from_arrays([keys, items], ["key", "value"])
    if not kept.all():
        entries = entries.filter(pa.array(kept))
    return listed(np.where(valid, sizes, 0), entries, type_, valid)


BY_KEY = [("of", "ascending"), ("key", "ascending")]
"""The order of the entries of maps: by row, then by key."""


def unpacked(found: np.ndarray, starts: np.ndarray, type_: str, valid: np.ndarray) -> pa.Array:
    """Returns the values of a nested type whose words begin at `starts` (int64[n]) of `found`; NULL where `valid`
    (bool[n]) is False."""
    values = _Reader(found, starts[valid]).read(type_, np.ones(int(valid.sum()), np.int64))
    if valid.all():
        return values
    return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


class _Reader:
    """Reads the words of rows, each from its current position in `stands` (int64[rows])."""

    def __init__(self, found: np.ndarray, stands: np.ndarray) -> None:
        self._words = found
        self._bytes = found.view(np.uint8)
        self._stands = stands.copy()

    def read(self, type_: str, counts: np.ndarray) -> pa.Array:
        """Returns the next `counts` values of each row, and advances behind them."""
        if is_nested(type_):
            return self._parts(type_, counts)
        target = arrow_type(type_)
        if type_ in ("string", "binary"):
            return self._texts(target, counts)
        wide = pa.types.is_decimal(target) and target.precision > ONE_WORD_DIGITS
        found = self._run(counts * (1 + wide))
        there = (found[::2] if wide else found) != NULL
        found = np.where(np.repeat(there, 1 + wide), found, 0)
        if pa.types.is_decimal(target) and not wide:
            found = np.stack([found, found >> 63], axis=1).reshape(-1)
        if type_ == "bool":
            data = pa.py_buffer(np.packbits(found != 0, bitorder="little"))
        else:
            data = pa.py_buffer(found.astype(np.int32) if target.bit_width == 32 else found)
        return pa.Array.from_buffers(target, len(there), [_bits(there), data])

    def _run(self, counts: np.ndarray) -> np.ndarray:
        found = self._words[_places(self._stands, counts)]
        self._stands += counts
        return found

    def _texts(self, target: pa.DataType, counts: np.ndarray) -> pa.Array:
        sizes = self._run(counts)
        there = sizes != NULL
        sizes = np.where(there, sizes, 0)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        length = _sums(ends, counts)
        data = self._bytes[_places(8 * self._stands, length)]
        self._stands += -(-length // 8)
        buffers = [_bits(there), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(target, len(there), buffers)

    def _parts(self, type_: str, counts: np.ndarray) -> pa.Array:
        made = parts(type_)
        assert made is not None, "a nested type has parts"
        target = arrow_type(type_)
        sizes = self._run(counts)
        there = sizes != NULL
        if made.kind == STRUCT:
            fields = [self.read(part, counts) for part in made.types]
            return pa.StructArray.from_arrays(fields, fields=list(target), mask=pa.array(~there))
        sizes = np.where(there, sizes, 0)
        inner = _sums(np.concatenate([[0], np.cumsum(sizes)]), counts)
        elements = [self.read(part, inner) for part in made.types]
        if made.kind == ARRAY:
            return listed(sizes, elements[0], target, there)
        return listed(sizes, pa.StructArray.from_arrays(elements, ["key", "value"]), target, there)


def _sums(ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the total size of the next `counts` values of each row. `ends`: where each value ends, int64[values +
    1]."""
    rows = np.concatenate([[0], np.cumsum(counts)])
    return np.diff(ends[rows])


def _bits(valid: np.ndarray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
