"""Packs plain columns into the structs of a ``Shape``, and unpacks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from plans.frontends.motif.find import Element, Shape


def nested_schema(shape: Shape, plain: pa.Schema) -> pa.Schema:
    """Returns the schema of rows with structs. Columns that belong to no element, like ``_weight``, come last."""
    fields = [pa.field(element.name, _type(element, plain)) for element in shape.elements]
    return pa.schema([*fields, *(plain.field(name) for name in _others(shape, plain))])


def nested(shape: Shape, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows with structs. Copies values only of elements that some rows do not have."""
    schema = nested_schema(shape, rows.schema)
    columns = [_column(shape, element, rows) for element in shape.elements]
    columns += [rows.column(name) for name in _others(shape, rows.schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_row(shape: Shape, row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the plain columns of a row with structs. An element that is None adds none."""
    found: dict[str, Any] = {}
    for element in shape.elements:
        value = row.get(element.name)
        if not element.fields:
            found[element.column] = value
        elif value is not None and not isinstance(value, Mapping):
            raise ChangeError(f"{element.name} is an element of the motif, a dict or None, not {value!r:.100}")
        elif value is None:
            found |= dict.fromkeys((column for _, column in element.fields), None)
        else:
            found |= {column: value.get(field) for field, column in element.fields}
    return found


def _type(element: Element, plain: pa.Schema) -> pa.DataType:
    if not element.fields:
        return plain.field(element.column).type
    return pa.struct([pa.field(field, plain.field(column).type) for field, column in element.fields])


def _others(shape: Shape, plain: pa.Schema) -> list[str]:
    known = {column for element in shape.elements for _, column in element.fields or (("", element.column),)}
    return [name for name in plain.names if name not in known]


def _column(shape: Shape, element: Element, rows: pa.RecordBatch) -> pa.Array:
    if not element.fields:
        return rows.column(element.column)
    arrays = [rows.column(column) for _, column in element.fields]
    absent = None if element.present is None else pa.array(~_present(shape, element.present, rows))
    fields = list(_type(element, rows.schema))
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _present(shape: Shape, present: tuple[tuple[int, str], ...], rows: pa.RecordBatch) -> np.ndarray:
    """Returns bool per row, True if the row has the element."""
    hops, directions = (rows.column(shape.plain(name)) for name in ("_hop", "_direction"))
    found = np.zeros(rows.num_rows, dtype=bool)
    for direction in {way for _, way in present}:
        lengths = pa.array([hop for hop, way in present if way == direction], hops.type)
        both = pc.and_(pc.equal(directions, direction), pc.is_in(hops, lengths))
        found |= both.to_numpy(zero_copy_only=False)
    return found
