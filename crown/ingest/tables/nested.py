"""Converts nested values to their declared type: from Python lists and dicts, from Arrow arrays, and from JSON texts.

A part is converted as a column of its type is, so a value that fits a column fits a part. A field that a struct or a
JSON object lacks becomes NULL. Undeclared fields are ignored, as undeclared columns are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.tables.arrays import plain
from plans.expressions.columns.arrays import validity, words
from plans.expressions.columns.packed import elements_of, listed, mapped
from plans.nested import ARRAY, MAP, STRUCT, Parts, is_nested, parts
from plans.types import arrow_type

OfList = Callable[[list[Any], str], pa.Array]  # (values, type) -> array of the type
OfArray = Callable[[pa.Array, str], pa.Array]


def of_list(values: Sequence[Any], kind: str, part: OfList) -> pa.Array:
    """Returns Python values as an array of a nested type. ``part`` converts the values of a part. Raises
    ArrowInvalid."""
    made, target = _parts(kind), arrow_type(kind)
    values = [None if value is None else _of_kind(value, made) for value in values]
    there = np.array([value is not None for value in values], bool)
    if made.kind == STRUCT:
        rows = [{} if value is None else {str(name).lower(): one for name, one in value.items()} for value in values]
        fields = [
            part([row.get(name.lower()) for row in rows], type_)
            for name, type_ in zip(made.names, made.types, strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=pa.array(~there))
    sizes = np.array([0 if value is None else len(value) for value in values], np.int64)
    elements = [element for value in values if value is not None for element in value]
    if made.kind == ARRAY:
        return listed(sizes, part(elements, made.types[0]), target, there)
    keys, items = ([pair[i] for pair in elements] for i in (0, 1))
    return _mapped(sizes, part(keys, made.types[0]), part(items, made.types[1]), target, there)


def of_array(array: pa.Array, kind: str, part: OfArray) -> pa.Array:
    """Returns an array of lists, maps, structs or JSON texts as one of a nested type. ``part`` converts the values of a
    part. Raises ArrowInvalid."""
    made, target = _parts(kind), arrow_type(kind)
    source, there = array.type, validity(array)
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if made.kind == STRUCT:
        if not pa.types.is_struct(source):
            raise pa.ArrowInvalid(f"{source} is not a struct")
        given = {source.field(i).name.lower(): column for i, column in enumerate(array.flatten())}
        fields = [
            part(given.get(name.lower(), pa.nulls(len(array))), type_)
            for name, type_ in zip(made.names, made.types, strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=pa.array(~there))
    if any(is_view(source) for is_view in (pa.types.is_list_view, pa.types.is_large_list_view)):
        lengths = words(pc.list_value_length(array).cast(pa.int64()), np.int64)  # a cast would lose elements
        array = listed(lengths, array.flatten(), pa.list_(source.value_type), there)
    elif pa.types.is_fixed_size_list(source) or pa.types.is_large_list(source):
        array = array.cast(pa.list_(source.value_type))
    elif not (pa.types.is_list(source) or pa.types.is_map(source)):
        raise pa.ArrowInvalid(f"{source} is not of type {made.kind}")
    sizes, elements = elements_of(array)
    if made.kind == ARRAY:
        return listed(sizes, part(elements, made.types[0]), target, there)
    keys, items = _entries(elements)
    return _mapped(sizes, part(keys, made.types[0]), part(items, made.types[1]), target, there)


def structs_for_maps(type_: pa.DataType, kind: str) -> bool:
    """Returns True if an Arrow type has structs, which libraries make of dicts, where the declared type has maps."""
    made = parts(kind) if is_nested(kind) else None
    if made is None or pa.types.is_null(type_):
        return False
    if pa.types.is_struct(type_):
        if made.kind != STRUCT:
            return made.kind == MAP
        given = {field.name.lower(): field.type for field in type_}
        return any(
            structs_for_maps(given.get(name.lower(), pa.null()), part)
            for name, part in zip(made.names, made.types, strict=True)
        )
    inner = getattr(type_, "value_type", pa.null())
    if made.kind == ARRAY:
        return structs_for_maps(inner, made.types[0])
    entry = pa.struct([type_.key_field, type_.item_field]) if pa.types.is_map(type_) else inner
    two = made.kind == MAP and pa.types.is_struct(entry) and entry.num_fields == 2
    return two and structs_for_maps(entry.field(1).type, made.types[1])


def of_json(array: pa.Array) -> list[Any]:
    """Returns the values of JSON texts; numbers with a point are Decimals. Raises ValueError."""
    return [None if text is None else json.loads(text, parse_float=Decimal) for text in array.to_pylist()]


def _parts(kind: str) -> Parts:
    found = parts(kind)
    assert found is not None, "a nested type has parts"
    return found


def _of_kind(value: Any, made: Parts) -> Any:
    """Returns a value as a list of elements, a list of pairs or a mapping of fields. Raises ArrowInvalid."""
    kind = made.kind
    if kind == STRUCT and isinstance(value, tuple) and len(value) == len(made.names):
        return dict(zip(made.names, value, strict=True))
    if isinstance(value, pa.Array):
        value = plain(value).to_pylist()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping) and kind != ARRAY:
        return value if kind == STRUCT else list(value.items())
    several = isinstance(value, (list, tuple))
    if several and (kind == ARRAY or (kind != STRUCT and all(map(_is_pair, value)))):
        return list(value)
    raise pa.ArrowInvalid(f"{value!r:.60} is not of type {kind}")


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2


def _entries(elements: pa.Array) -> list[pa.Array]:
    """Returns the keys and the items of entries: structs of two fields, or lists of two. Raises ArrowInvalid."""
    type_ = elements.type
    if pa.types.is_null(type_):
        return [elements, elements]
    if pa.types.is_struct(type_) and type_.num_fields == 2:
        found: list[pa.Array] = elements.flatten()
        return found
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        lengths = words(pc.list_value_length(elements).cast(pa.int64()), np.int64)
        if (validity(elements) & (lengths == 2)).all():
            values = elements.flatten()
            return [values.take(pa.array(np.arange(i, len(values), 2))) for i in (0, 1)]
    raise pa.ArrowInvalid(f"{type_} is not a key and a value")


def _mapped(sizes: np.ndarray, keys: pa.Array, items: pa.Array, target: pa.DataType, there: np.ndarray) -> pa.Array:
    found = mapped(sizes, keys, items, target, there)
    if found.null_count > len(there) - int(there.sum()):
        raise pa.ArrowInvalid("a key of a map is NULL, or occurs twice")
    return found
