"""Spark's functions of arrays, maps and structs, on whole columns: over the concatenated elements of all arrays.

A column of arrays is the number of elements of each array, and the elements of all of them, one after the other. So a
function of elements is a function of one column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns.arrays import float_words, on_arrays, validity, words
from plans.expressions.columns.packed import comparable, elements_of, listed, mapped
from plans.expressions.functions.function import arrays, function
from plans.nested import ARRAY, MAP, STRUCT, Parts, array_of, element_of, is_nested, map_of, parts, struct_of
from plans.types import type_of_arrow

_HINT = {ARRAY: "array<...>", MAP: "map<...>", STRUCT: "struct<...>"}
OUTER = "outer"
"""The function that replaces an empty array by an array of one NULL."""


def of_kind(kind: str, type_: str, name: str) -> Parts:
    """Returns the parts of a type of a kind. Raises PlanError if the type has another kind."""
    found = parts(type_) if is_nested(type_) else None
    if found is None or found.kind != kind:
        raise PlanError(f"{name} needs a value of type {_HINT[kind]}, not {type_}")
    return found


def rows_of(sizes: np.ndarray) -> np.ndarray:
    """Returns the row of each element."""
    return np.repeat(np.arange(len(sizes)), sizes)


def where(valid: np.ndarray, value: pa.Array) -> pa.Array:
    """Returns values, with NULL where `valid` is False."""
    return value if valid.all() else pc.if_else(pa.array(valid), value, pa.scalar(None, value.type))


# -- construction and access -------------------------------------------------------------------------------------------


def _array(type_: pa.DataType, *values: pa.Array) -> pa.Array:
    if not values:
        return listed(np.zeros(1), pa.nulls(0, type_.value_type), type_, np.ones(1, bool))
    n, k = len(values[0]), len(values)
    places = np.arange(n * k).reshape(k, n).T.reshape(-1)
    elements = pa.concat_arrays([value.cast(type_.value_type) for value in values]).take(pa.array(places))
    return listed(np.full(n, k), elements, type_, np.ones(n, bool))


def _named(types: Sequence[str], values: Sequence[Any]) -> str:
    if len(types) % 2 or any(not isinstance(name, str) for name in values[::2]):
        raise PlanError("NAMED_STRUCT takes names and values, in turn", hint="write NAMED_STRUCT('a', 1, 'b', 2)")
    if "null" in types:
        raise PlanError("a field of NAMED_STRUCT is NULL without a type", hint="write CAST(NULL AS ...)")
    made = struct_of(values[::2], types[1::2])
    try:
        parts(made)
    except ValueError as error:
        raise PlanError(f"NAMED_STRUCT: {error}") from None
    return made


def _struct(type_: pa.DataType, *values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(values[1::2]), fields=list(type_))


def _map(types: Sequence[str], values: Sequence[Any]) -> str:
    if len(types) % 2 or len(set(types[::2])) > 1 or len(set(types[1::2])) > 1 or "null" in types:
        raise PlanError("MAP takes keys of one type and values of one type, in turn", hint="write MAP('a', 1, 'b', 2)")
    return keyed(*types[:2])


def keyed(key: str, value: str) -> str:
    """Returns the type of maps from keys to values of these types. Raises PlanError if no map has such keys."""
    if is_nested(key):
        raise PlanError("a key of a map cannot be a nested value", hint="make the key a text or a number")
    return map_of(key, value)


def _mapped(type_: pa.DataType, *values: pa.Array) -> pa.Array:
    keys, items = (_array(pa.list_(part), *values[i::2]) for i, part in enumerate((type_.key_type, type_.item_type)))
    n, k = len(values[0]), len(values) // 2
    return mapped(np.full(n, k), keys.flatten(), items.flatten(), type_, np.ones(n, bool))


def _field(types: Sequence[str], values: Sequence[Any]) -> str:
    made = of_kind(STRUCT, types[0], "." + str(values[1]))
    place = made.place(str(values[1]))
    if place is None:
        raise PlanError(f"there is no field {values[1]} in {types[0]}", hint=f"it has: {', '.join(made.names)}")
    return made.types[place]


def _field_of(type_: pa.DataType, value: Any, name: pa.Scalar) -> Any:
    names = [field.name.lower() for field in value.type]
    return on_arrays(lambda array: array.flatten()[names.index(name.as_py().lower())], value)


def _element(types: Sequence[str], values: Sequence[Any]) -> str:
    if is_nested(types[0]) and types[0].startswith(MAP):
        return of_kind(MAP, types[0], "ELEMENT_AT").types[1]
    return of_kind(ARRAY, types[0], "ELEMENT_AT").types[0]


def _element_at(type_: pa.DataType, value: pa.Array, positions: pa.Array) -> pa.Array:
    if pa.types.is_map(value.type):
        return _item(value, positions)
    places = words(positions.cast(pa.int64()), np.int64)
    sizes, _ = elements_of(value)
    return _picked(value, np.where(places < 0, sizes + places, places - 1), validity(positions) & (places != 0))


def _item(value: pa.Array, key: pa.Array) -> pa.Array:
    """Returns the values of maps at a key; NULL where there is none."""
    sizes, entries = elements_of(value)
    keys, items = entries.flatten()
    rows = rows_of(sizes)
    same = pc.fill_null(_equal(keys, key.take(pa.array(rows))), False).to_numpy(zero_copy_only=False)
    places, found = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), bool)
    hits = np.flatnonzero(same)
    places[rows[hits]], found[rows[hits]] = hits, True
    return items.take(pa.array(places, mask=~found))


def _picked(value: pa.Array, positions: np.ndarray, known: np.ndarray) -> pa.Array:
    """Returns the element of each array at a position, from 0; NULL where there is none."""
    sizes, elements = elements_of(value)
    inside = known & (positions >= 0) & (positions < sizes)
    return elements.take(pa.array(np.where(inside, np.cumsum(sizes) - sizes + positions, 0), mask=~inside))


def _size(type_: pa.DataType, value: pa.Array) -> pa.Array:
    return where(validity(value), pa.array(elements_of(value)[0].astype(np.int32)))


def _sized(types: Sequence[str], values: Sequence[Any]) -> str:
    if not is_nested(types[0]) or types[0].startswith(STRUCT):
        raise PlanError(f"SIZE needs an array or a map, not {types[0]}")
    return "int32"


def _part_of_map(which: str) -> tuple[Callable[..., str], Callable[..., Any]]:
    """Returns the type function and the evaluator of the keys, values or entries of a map."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        key, value = of_kind(MAP, types[0], f"MAP_{which.upper()}").types
        return array_of({"keys": key, "values": value}.get(which) or struct_of(["key", "value"], [key, value]))

    def evaluate(type_: pa.DataType, value: pa.Array) -> pa.Array:
        sizes, entries = elements_of(value)
        keys, items = entries.flatten()
        made = pa.StructArray.from_arrays([keys, items], ["key", "value"])
        return listed(sizes, {"keys": keys, "values": items}.get(which, made), type_, validity(value))

    return gives, arrays(evaluate)


# -- contents of arrays ------------------------------------------------------------------------------------------------


def _equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Returns whether values are equal, as in comparisons."""
    if pa.types.is_nested(left.type):
        type_ = type_of_arrow(left.type)
        return pc.equal(comparable(left, type_), comparable(right, type_))
    if pa.types.is_floating(left.type):
        same = float_words(words(left, np.float64)) == float_words(words(right, np.float64))
        return where(validity(left) & validity(right), pa.array(same))
    return pc.equal(left, right)


def _hits(value: pa.Array, element: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the number of elements of each array, the row of each element, and which elements equal the value of
    their row."""
    sizes, elements = elements_of(value)
    rows = rows_of(sizes)
    same = _equal(elements, element.take(pa.array(rows)))
    return sizes, rows, pc.fill_null(same, False).to_numpy(zero_copy_only=False)


def _contains(type_: pa.DataType, value: pa.Array, element: pa.Array) -> pa.Array:
    sizes, rows, same = _hits(value, element)
    found, doubt = np.zeros(len(sizes), bool), np.zeros(len(sizes), bool)
    found[rows[same]] = True
    doubt[rows[~validity(elements_of(value)[1])]] = True
    return where(validity(value) & validity(element) & (found | ~doubt), pa.array(found))


def _position(type_: pa.DataType, value: pa.Array, element: pa.Array) -> pa.Array:
    sizes, rows, same = _hits(value, element)
    first = np.zeros(len(sizes), np.int64)
    hits = np.flatnonzero(same)[::-1]
    first[rows[hits]] = hits - (np.cumsum(sizes) - sizes)[rows[hits]] + 1
    return where(validity(value) & validity(element), pa.array(first))


def _remove(type_: pa.DataType, value: pa.Array, element: pa.Array) -> pa.Array:
    same = _hits(value, element)[-1]
    return kept(value, ~same, type_, validity(value) & validity(element))


def kept(value: pa.Array, keep: np.ndarray, type_: pa.DataType, valid: np.ndarray) -> pa.Array:
    """Returns the arrays with only the elements for which `keep` is True."""
    sizes, elements = elements_of(value)
    rows = rows_of(sizes)
    keep = keep & valid[rows]
    return listed(np.bincount(rows[keep], minlength=len(sizes)), elements.filter(pa.array(keep)), type_, valid)


def _compact(type_: pa.DataType, value: pa.Array) -> pa.Array:
    return kept(value, validity(elements_of(value)[1]), type_, validity(value))


def _distinct(type_: pa.DataType, value: pa.Array) -> pa.Array:
    sizes, elements = elements_of(value)
    _, firsts = np.unique(np.stack([rows_of(sizes), codes(elements)], axis=1), axis=0, return_index=True)
    keep = np.zeros(len(elements), bool)
    keep[firsts] = True
    return kept(value, keep, type_, validity(value))


def codes(values: pa.Array) -> np.ndarray:
    """Returns integers that are equal iff the values are equal. NULLs are equal."""
    if pa.types.is_nested(values.type):
        values = comparable(values, type_of_arrow(values.type))
    if pa.types.is_floating(values.type):
        values = where(validity(values), pa.array(float_words(words(values, np.float64))))
    return pc.fill_null(values.dictionary_encode().indices, -1).to_numpy().astype(np.int64)


def _in_order(value: pa.Array, descending: bool, nulls_last: bool, greatest: bool = False) -> pa.Array:
    """Returns the elements, sorted within each array; NaN is the greatest. Structs are compared by their fields in
    order, where NULL is the least, or the `greatest`."""
    sizes, elements = elements_of(value)
    keys: dict[str, Any] = {"row": rows_of(sizes)}
    by: list[tuple[str, str]] = [("row", "ascending")]
    way = "descending" if descending else "ascending"

    def add(part: pa.Array, last: bool) -> None:
        place = len(keys)
        keys[f"there{place}"] = validity(part)
        by.append((f"there{place}", "descending" if last else "ascending"))
        if pa.types.is_struct(part.type):
            for field in part.flatten():
                add(field, descending != greatest)
            return
        if pa.types.is_floating(part.type):
            keys[f"nan{place}"] = pc.fill_null(pc.is_nan(part), False)
            by.append((f"nan{place}", way))
        keys[f"value{place}"] = part
        by.append((f"value{place}", way))

    add(elements, nulls_last)
    return elements.take(pc.sort_indices(pa.table(keys), by))


def _sort(type_: pa.DataType, value: pa.Array, *rising: pa.Scalar) -> pa.Array:
    up = not rising or bool(rising[0].as_py())
    sizes, _ = elements_of(value)
    return listed(sizes, _in_order(value, not up, not up), type_, validity(value))


def _list_sort(type_: pa.DataType, value: pa.Array, up: pa.Scalar, nulls_first: pa.Scalar) -> pa.Array:
    ordered = _in_order(value, not up.as_py(), not nulls_first.as_py(), True)
    return listed(elements_of(value)[0], ordered, type_, validity(value))


def _extreme(descending: bool) -> Callable[..., Any]:
    def evaluate(type_: pa.DataType, value: pa.Array) -> pa.Array:
        sizes, _ = elements_of(value)
        ordered = _in_order(value, descending, True)
        return ordered.take(pa.array(np.where(sizes > 0, np.cumsum(sizes) - sizes, 0), mask=sizes == 0))

    return arrays(evaluate)


def _plain_array(name: str, element: bool, structs: bool = False) -> Callable[..., str]:
    """Returns the type function of a function of arrays whose elements are compared: the array's type, or the
    element's. With `structs`, the elements can be structs."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        (inner,) = of_kind(ARRAY, types[0], name).types
        if not (_is_ordered(inner) if structs else not is_nested(inner)):
            raise PlanError(f"{name} compares elements, and those of {types[0]} have no order")
        return inner if element else types[0]

    return gives


def _is_ordered(type_: str) -> bool:
    """Returns whether values of a type have an order: those of a plain type, and structs of such fields."""
    found = parts(type_) if is_nested(type_) else None
    return found is None or (found.kind == STRUCT and all(map(_is_ordered, found.types)))


def same_array(name: str) -> Callable[..., str]:
    """Returns the type function of a function whose result is an array like its argument."""
    return lambda types, values: of_kind(ARRAY, types[0], name).named()


def whole(name: str, type_: str) -> Callable[..., str]:
    """Returns the type function of a function of an array whose result has another type."""

    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        of_kind(ARRAY, types[0], name)
        return type_

    return gives


def _slice(type_: pa.DataType, value: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
    sizes, _ = elements_of(value)
    first, count = (words(one.cast(pa.int64()), np.int64) for one in (start, length))
    there = validity(value) & validity(start) & validity(length) & (first != 0) & (count >= 0)
    first = np.where(first < 0, sizes + first, first - 1)
    rows = rows_of(sizes)
    places = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[rows]
    keep = (first[rows] >= 0) & (places >= first[rows]) & (places < first[rows] + count[rows])
    return kept(value, keep, type_, there)


def _flat(types: Sequence[str], values: Sequence[Any]) -> str:
    inner = element_of(types[0])
    return of_kind(ARRAY, inner or types[0], "FLATTEN").named()


def _flatten(type_: pa.DataType, value: pa.Array) -> pa.Array:
    sizes, inner = elements_of(value)
    there = validity(value)
    there[rows_of(sizes)[~validity(inner)]] = False  # a NULL part makes the result NULL
    counts, elements = elements_of(inner)
    rows = rows_of(sizes)
    keep = np.repeat(there[rows], counts)
    total = np.bincount(rows, counts, len(sizes)).astype(np.int64)
    return listed(np.where(there, total, 0), elements.filter(pa.array(keep)), type_, there)


def _join(type_: pa.DataType, value: pa.Array, *marks: pa.Array) -> pa.Array:
    texts = value.type
    if len(marks) == 2:
        sizes, elements = elements_of(value)
        filled = pc.if_else(pc.is_valid(elements), elements, marks[1].take(pa.array(rows_of(sizes))))
        value = listed(sizes, filled, texts, validity(value))
    return pc.binary_join(_compact(texts, value), marks[0])


def _joined(types: Sequence[str], values: Sequence[Any]) -> str:
    if types[0] != array_of("string"):
        raise PlanError(f"ARRAY_JOIN needs an array<string>, not {types[0]}", hint="cast it to ARRAY<STRING>")
    return "string"


def _with_places(types: Sequence[str], values: Sequence[Any]) -> str:
    return array_of(struct_of(["pos", "col"], ["int32", of_kind(ARRAY, types[0], "POSEXPLODE").types[0]]))


def _placed(type_: pa.DataType, value: pa.Array) -> pa.Array:
    sizes, elements = elements_of(value)
    places = np.arange(len(elements)) - (np.cumsum(sizes) - sizes)[rows_of(sizes)]
    pairs = pa.StructArray.from_arrays([pa.array(places.astype(np.int32)), elements], fields=list(type_.value_type))
    return listed(sizes, pairs, type_, validity(value))


def _outer(type_: pa.DataType, value: pa.Array) -> pa.Array:
    sizes, elements = elements_of(value)
    more = np.maximum(sizes, 1)
    places = np.zeros(int(more.sum()), np.int64)
    missing = np.repeat(sizes == 0, more)
    places[~missing] = np.arange(len(elements))
    return listed(more, elements.take(pa.array(places, mask=missing)), type_, np.ones(len(sizes), bool))


_LAST = "The first index is 1; a negative index counts from the end. "
TABLE = (
    function("array", "[same] ...", lambda types, values: array_of(types[0]), arrays(_array)),
    function("named_struct", "any any ...", _named, arrays(_struct), note="Also `STRUCT(a, b AS c)`."),
    function("map", "any any ...", _map, arrays(_mapped), null="a key that is NULL or occurs twice"),
    function("get_field", "any =string", _field, _field_of, sql=lambda args: f"{args[0]}.{args[1][1:-1]}", hidden=True),
    function(
        "element_at", "any key", _element, arrays(_element_at), null="an element that does not exist",
        note=_LAST + "For a map, the second argument is a key. `a[i]` counts from 0, `m[k]` is the value of a key.",
    ),
    function("get", "any int32", lambda types, values: of_kind(ARRAY, types[0], "GET").types[0],
             arrays(lambda type_, value, at: _picked(value, words(at, np.int32).astype(np.int64), validity(at))),
             null="an element that does not exist", note="The first index is 0."),
    function("size", "any", _sized, arrays(_size), also=("cardinality", "array_size")),
    function("map_keys", "any", *_part_of_map("keys"), note="In the order of the keys, like all parts of a map."),
    function("map_values", "any", *_part_of_map("values")),
    function("map_entries", "any", *_part_of_map("entries")),
    function("array_contains", "any element", whole("ARRAY_CONTAINS", "bool"), arrays(_contains),
             note="NULL if the array has a NULL and not the value."),
    function("array_position", "any element", whole("ARRAY_POSITION", "int64"), arrays(_position),
             note="0 if the element is not found."),
    function("array_remove", "any element", same_array("ARRAY_REMOVE"), arrays(_remove)),
    function("array_compact", "any", same_array("ARRAY_COMPACT"), arrays(_compact)),
    function("array_distinct", "any", same_array("ARRAY_DISTINCT"), arrays(_distinct)),
    function("sort_array", "any [=bool]", _plain_array("SORT_ARRAY", False, True), lambda type_, value, *up: on_arrays(
        lambda array: _sort(type_, array, *up), value), note="NULLs are first, or last in descending order."),
    function(
        "sorted_array", "any", _plain_array("ARRAY_SORT", False, True), hidden=True,
        sql=lambda a: f"ARRAY_SORT({a[0]})",
        evaluate=arrays(lambda type_, value: listed(
            elements_of(value)[0], _in_order(value, False, True), type_, validity(value))),
    ),
    function("ordered_list", "any =bool =bool", _plain_array("LIST_SORT", False, True), hidden=True,
             evaluate=lambda type_, value, *how: on_arrays(lambda array: _list_sort(type_, array, *how), value)),
    function("array_min", "any", _plain_array("ARRAY_MIN", True), _extreme(False)),
    function("array_max", "any", _plain_array("ARRAY_MAX", True), _extreme(True)),
    function("slice", "any int32 int32", same_array("SLICE"), arrays(_slice), null="a start of 0", note=_LAST),
    function("flatten", "any", _flat, arrays(_flatten)),
    function("array_join", "any string [string]", _joined, arrays(_join)),
    function("with_places", "any", _with_places, arrays(_placed), hidden=True),
    function(OUTER, "any", same_array("EXPLODE"), arrays(_outer), hidden=True),
)  # fmt: skip
