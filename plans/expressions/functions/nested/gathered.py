"""Arrays and maps computed from several: set operations, sequences, inserted elements, entries of maps.

Whole columns at once, as in `collections`: a function of elements is a function of one column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from plans.errors import PlanError
from plans.expressions.coercion import INTEGERS
from plans.expressions.columns import dates
from plans.expressions.columns.arrays import validity, words
from plans.expressions.columns.packed import elements_of, listed, mapped
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import arrays, function
from plans.expressions.functions.nested.collections import codes, keyed, of_kind, rows_of, same_array, where, whole
from plans.nested import ARRAY, MAP, STRUCT, array_of, parts, struct_of
from plans.types import INTERVALS, MOMENTS

LONGEST = 100_000
"""The most elements that SEQUENCE, ARRAY_REPEAT and ARRAY_INSERT create in a row."""
_AT_MOST = f"more than {LONGEST:,} elements"


# -- sets --------------------------------------------------------------------------------------------------------------


class _Both:
    """The elements of two arrays in each row, as numbers that are equal iff the elements are equal and in one row."""

    def __init__(self, left: pa.Array, right: pa.Array) -> None:
        self.there = validity(left) & validity(right)
        sides = [elements_of(side) for side in (left, right)]
        self.sizes, self.elements = sides[0]
        self.rows, others = (rows_of(sizes) for sizes, _ in sides)
        found = codes(pa.concat_arrays([elements for _, elements in sides])) + 1
        found += np.concatenate([self.rows, others]) * (int(found.max(initial=0)) + 1)
        self.own, self.others = found[: len(self.rows)], found[len(self.rows) :]
        self.known, self.other_known = (validity(elements) for _, elements in sides)
        self.other_rows = others


def _chosen(common: bool) -> Callable[..., Any]:
    """Returns an evaluator of the distinct elements of the first array that are, or are not, in the second one."""

    def evaluate(type_: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
        both = _Both(left, right)
        first = np.zeros(len(both.own), bool)
        first[np.unique(both.own, return_index=True)[1]] = True
        keep = first & (np.isin(both.own, both.others) == common) & both.there[both.rows]
        sizes = np.bincount(both.rows[keep], minlength=len(both.sizes))
        return listed(sizes, both.elements.filter(pa.array(keep)), type_, both.there)

    return arrays(evaluate)


def _overlap(type_: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    """Returns whether two arrays have a common element; NULL if only a NULL could be one."""
    both = _Both(left, right)
    count = len(both.sizes)
    found, doubt, some = (np.zeros(count, bool) for _ in range(3))
    found[both.rows[both.known & np.isin(both.own, both.others[both.other_known])]] = True
    some[both.other_rows] = True
    doubt[both.rows[~both.known]] = True
    doubt &= some
    others = np.zeros(count, bool)
    others[both.other_rows[~both.other_known]] = True
    doubt |= others & (both.sizes > 0)
    return where(both.there & (found | ~doubt), pa.array(found))


# -- positions of elements ---------------------------------------------------------------------------------------------


def _repeated(types: Sequence[str], values: Sequence[Any]) -> str:
    if types[0] == "null":
        raise PlanError("ARRAY_REPEAT of NULL has no type", hint="write CAST(NULL AS ...)")
    return array_of(types[0])


def _repeat(type_: pa.DataType, value: pa.Array, count: pa.Array) -> pa.Array:
    wanted = words(count, np.int32).astype(np.int64)
    there = validity(count) & (wanted <= LONGEST)
    sizes = np.where(there, np.maximum(wanted, 0), 0)
    return listed(sizes, value.take(pa.array(rows_of(sizes))), type_, there)


def _insert(type_: pa.DataType, value: pa.Array, position: pa.Array, element: pa.Array) -> pa.Array:
    """Returns arrays with an element inserted at a position, which counts from 1, or backwards from -1. An array that
    is too short is padded with NULLs."""
    sizes, elements = elements_of(value)
    at = words(position, np.int32).astype(np.int64)
    gap = np.maximum(np.where(at > 0, at - 1 - sizes, -at - 1 - sizes), 0)
    valid = validity(value) & validity(position) & (at != 0) & (gap <= LONGEST)
    new = np.where(valid, sizes + gap + 1, 0)
    inserted = np.where(at > 0, at - 1, np.where(gap > 0, 0, sizes + 1 + at))
    rows, index = _spots(new)
    is_new = index == inserted[rows]
    back = (at < 0)[rows] & (gap > 0)[rows]  # the NULLs come first, after the new element
    old = np.where(back, index - 1 - gap[rows], index - (index > inserted[rows]))
    inside = ~is_new & (old >= 0) & (old < sizes[rows])
    all_ = pa.concat_arrays([elements, element.cast(elements.type)])
    source = np.where(is_new, len(elements) + rows, np.where(inside, (np.cumsum(sizes) - sizes)[rows] + old, 0))
    return listed(new, all_.take(pa.array(source, mask=~(is_new | inside))), type_, valid)


def _reversed(type_: pa.DataType, value: pa.Array) -> pa.Array:
    sizes, elements = elements_of(value)
    rows, spot = _spots(sizes)
    return listed(sizes, elements.take(pa.array(np.cumsum(sizes)[rows] - 1 - spot)), type_, validity(value))


def _zipped(types: Sequence[str], values: Sequence[Any]) -> str:
    names, given = [one for one in values[::2] if isinstance(one, str)], types[1::2]
    if len(names) != len(given):
        raise PlanError("ARRAYS_ZIP takes names and arrays, in turn")
    made = struct_of(names, [of_kind(ARRAY, one, "ARRAYS_ZIP").types[0] for one in given])
    try:
        parts(made)
    except ValueError as error:
        raise PlanError(f"ARRAYS_ZIP: {error}", hint="name them in a subquery: SELECT a AS x, ...") from None
    return array_of(made)


def _zip(type_: pa.DataType, *values: pa.Array) -> pa.Array:
    """Returns the structs of the elements at each position. A shorter array is padded with NULLs."""
    given = [(validity(one), *elements_of(one)) for one in values[1::2]]
    there = np.logical_and.reduce([known for known, _, _ in given])
    sizes = np.where(there, np.maximum.reduce([counts for _, counts, _ in given]), 0)
    rows, spot = _spots(sizes)
    fields = []
    for _, counts, elements in given:
        inside = spot < counts[rows]
        places = np.where(inside, (np.cumsum(counts) - counts)[rows] + spot, 0)
        fields.append(elements.take(pa.array(places, mask=~inside)))
    return listed(sizes, pa.StructArray.from_arrays(fields, fields=list(type_.value_type)), type_, there)


# -- counts of elements ------------------------------------------------------------------------------------------------


def _tally(value: pa.Array) -> tuple[np.ndarray, pa.Array, np.ndarray, np.ndarray]:
    """Returns the distinct elements of each array except NULL: their rows, values, first positions and counts."""
    sizes, elements = elements_of(value)
    known = np.flatnonzero(validity(elements))
    pairs = np.stack([rows_of(sizes)[known], codes(elements)[known]], axis=1).reshape(-1, 2)
    found, firsts, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    return found[:, 0], elements.take(pa.array(known[firsts])), firsts, counts


def _commonest(type_: pa.DataType, value: pa.Array) -> pa.Array:
    """Returns the most frequent element, the first one on ties."""
    rows, elements, firsts, counts = _tally(value)
    order = np.lexsort([firsts, -counts, rows])
    best = order[np.flatnonzero(np.diff(rows[order], prepend=-1))]
    places, found = np.zeros(len(value), np.int64), np.zeros(len(value), bool)
    places[rows[best]], found[rows[best]] = best, True
    return elements.take(pa.array(places, mask=~(found & validity(value))))


def _counts_type(types: Sequence[str], values: Sequence[Any]) -> str:
    return keyed(of_kind(ARRAY, types[0], "LIST_HISTOGRAM").types[0], "int64")


def _counts(type_: pa.DataType, value: pa.Array) -> pa.Array:
    rows, elements, _, counts = _tally(value)
    sizes = np.bincount(rows, minlength=len(value))
    there = validity(value) & (sizes > 0)
    inside = there[rows]
    keys, items = elements.filter(pa.array(inside)), pa.array(counts[inside].astype(np.int64))
    return mapped(np.where(there, sizes, 0), keys, items, type_, there)


# -- sequences ---------------------------------------------------------------------------------------------------------


def _between(types: Sequence[str], values: Sequence[Any]) -> str:
    start, stop, step = types
    if start != stop or step not in ([start] if start in INTEGERS else INTERVALS if start in MOMENTS else ()):
        raise PlanError(
            f"SEQUENCE takes whole numbers, or dates or timestamps and an INTERVAL, not {start}, {stop} and {step}",
            hint="use CAST",
        )
    return array_of(start)


def _steps(type_: pa.DataType, start: pa.Array, stop: pa.Array, step: pa.Array) -> pa.Array:
    """Returns SEQUENCE: from a value to another one, in integer steps, in microseconds or in months."""
    kind = start.type
    by = words(step, np.int32 if step.type == pa.int32() else np.int64).astype(np.int64)
    known = validity(start) & validity(stop) & validity(step)
    if pa.types.is_temporal(kind) and step.type == pa.int32():
        return _months(type_, start, stop, by, known)
    width = np.int32 if kind.bit_width == 32 else np.int64
    first, last = words(start, width).astype(np.int64), words(stop, width).astype(np.int64)
    if pa.types.is_date(kind):
        known &= by % dates.DAY == 0
        by = by // dates.DAY
    with np.errstate(over="ignore"):
        far = last - first
    known &= ((first ^ last) >= 0) | ((last ^ far) >= 0)  # a difference that overflows is more than the limit
    known &= np.where(by == 0, far == 0, (far == 0) | ((far > 0) == (by > 0)))
    count = np.where(known, far // np.where(by == 0, 1, by), 0)
    known &= count < LONGEST
    sizes = np.where(known, count + 1, 0)
    rows, spot = _spots(sizes)
    made = (first[rows] + spot * by[rows]).astype(width)
    return listed(sizes, pa.Array.from_buffers(kind, len(made), [None, pa.py_buffer(made)]), type_, known)


def _months(type_: pa.DataType, start: pa.Array, stop: pa.Array, steps: np.ndarray, known: np.ndarray) -> pa.Array:
    first, last = dates.days_of(start), dates.days_of(stop)
    apart = dates.months_of(last) - dates.months_of(first)
    ends = words(stop, np.int32 if pa.types.is_date(stop.type) else np.int64).astype(np.int64)
    begins = words(start, np.int32 if pa.types.is_date(stop.type) else np.int64).astype(np.int64)
    known &= (begins == ends) | ((steps != 0) & ((ends > begins) == (steps > 0)))
    most = np.where(known & (steps != 0), np.abs(apart) // np.maximum(np.abs(steps), 1) + 1, 1)
    known &= most <= LONGEST
    rows, spot = _spots(np.where(known, most, 0))
    days = dates.shifted(first[rows], spot * steps[rows])
    scale = 1 if pa.types.is_date(start.type) else dates.DAY
    made = days * scale if scale == 1 else days * scale + dates.clock_of(start)[rows]
    keep = np.where(steps[rows] >= 0, made <= ends[rows], made >= ends[rows])
    made = made[keep].astype(np.int32 if scale == 1 else np.int64)
    sizes = np.bincount(rows[keep], minlength=len(start))
    return listed(sizes, pa.Array.from_buffers(start.type, len(made), [None, pa.py_buffer(made)]), type_, known)


def _spots(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row of each element, and its position there from 0."""
    rows = rows_of(sizes)
    return rows, np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[rows]


# -- maps --------------------------------------------------------------------------------------------------------------


def _of_arrays(types: Sequence[str], values: Sequence[Any]) -> str:
    return keyed(*(of_kind(ARRAY, one, "MAP_FROM_ARRAYS").types[0] for one in types))


def _map_of_arrays(type_: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.Array:
    (sizes, names), (counts, values) = elements_of(keys), elements_of(items)
    there = validity(keys) & validity(items) & (sizes == counts)
    inside = [pa.array(there[rows_of(one)]) for one in (sizes, counts)]
    return mapped(np.where(there, sizes, 0), names.filter(inside[0]), values.filter(inside[1]), type_, there)


def _of_entries(types: Sequence[str], values: Sequence[Any]) -> str:
    (entry,) = of_kind(ARRAY, types[0], "MAP_FROM_ENTRIES").types
    made = of_kind(STRUCT, entry, "MAP_FROM_ENTRIES of an array")
    if len(made.types) != 2:
        raise PlanError(f"MAP_FROM_ENTRIES needs structs of a key and a value, not {entry}")
    return keyed(*made.types)


def _map_of_entries(type_: pa.DataType, value: pa.Array) -> pa.Array:
    sizes, entries = elements_of(value)
    there = validity(value)
    there[rows_of(sizes)[~validity(entries)]] = False
    inside = pa.array(there[rows_of(sizes)])
    keys, items = entries.flatten()
    return mapped(np.where(there, sizes, 0), keys.filter(inside), items.filter(inside), type_, there)


def _concat(type_: pa.DataType, *values: pa.Array) -> pa.Array:
    there = np.logical_and.reduce([validity(one) for one in values])
    given = [elements_of(one) for one in values]
    rows = np.concatenate([rows_of(sizes) for sizes, _ in given])
    keep = there[rows]
    order = np.argsort(rows[keep], kind="stable")
    entries = pa.concat_arrays([one for _, one in given]).filter(pa.array(keep)).take(pa.array(order))
    keys, items = entries.flatten()
    return mapped(np.bincount(rows[keep], minlength=len(there)), keys, items, type_, there)


def _marks(types: Sequence[str], values: Sequence[Any]) -> str:
    for mark in values[1:]:
        if mark is not None and (not mark or any(sign in ".^$*+?()[]{}|\\" for sign in mark)):
            raise PlanError(
                f"STR_TO_MAP splits at texts, not at the pattern {mark!r}", hint="write the separator itself"
            )
    return "map<string,string>"


def _str_to_map(text: str, pairs: str = ",", middle: str = ":") -> list[tuple[str, str | None]] | None:
    found = [part.split(middle, 1) for part in text.split(pairs)]
    made = {part[0]: part[1] if len(part) > 1 else None for part in found}
    return sorted(made.items(), key=lambda one: one[0].encode()) if len(made) == len(found) else None


_TWICE = "a key that is NULL or occurs twice"
TABLE = (
    function("array_intersect", "same same", same_array("ARRAY_INTERSECT"), _chosen(True)),
    function("array_except", "same same", same_array("ARRAY_EXCEPT"), _chosen(False)),
    function("arrays_overlap", "same same", whole("ARRAYS_OVERLAP", "bool"), arrays(_overlap),
             note="NULL if there is no common element, and an array has a NULL."),
    function("array_repeat", "any int32", _repeated, arrays(_repeat), null=_AT_MOST),
    function("array_insert", "any int32 element", same_array("ARRAY_INSERT"), arrays(_insert),
             null=f"place 0; {_AT_MOST}",
             note="Positions count from 1; negative positions count from the end. An array that is too short is filled "
                  "with NULLs."),
    function("value_of_most", "any", lambda types, values: of_kind(ARRAY, types[0], "LIST_MODE").types[0],
             arrays(_commonest), hidden=True),
    function("counts_of_values", "any", _counts_type, arrays(_counts), hidden=True),
    function("array_reverse", "any", same_array("REVERSE"), arrays(_reversed), also=("list_reverse",),
             sql=lambda a: f"REVERSE({a[0]})", note="Also REVERSE."),
    function("arrays_zip", "any any ...", _zipped, arrays(_zip), hidden=True,
             sql=lambda a: f"ARRAYS_ZIP({', '.join(a[1::2])})"),
    function("sequence_by", "any any any", _between, arrays(_steps), hidden=True,
             sql=lambda a: f"SEQUENCE({', '.join(a)})"),
    function("map_from_arrays", "any any", _of_arrays, arrays(_map_of_arrays), null=_TWICE),
    function("map_from_entries", "any", _of_entries, arrays(_map_of_entries), null=_TWICE),
    function("map_concat", "same ...", lambda types, values: of_kind(MAP, types[0], "MAP_CONCAT").named(),
             arrays(_concat), null=_TWICE),
    function("str_to_map", "string [=string] [=string]", _marks, each(_str_to_map), null="a key that occurs twice",
             note="The separators between entries, and between a key and its value: by default `,` and `:`."),
)  # fmt: skip
