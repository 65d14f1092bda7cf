"""Access to nested values: `value.name`, `value[index]`, and the elements that EXPLODE turns into rows."""

from __future__ import annotations

from collections.abc import Sequence

from plans.errors import PlanError
from plans.expressions.build import Expr, call, lit
from plans.expressions.lambdas import Lambda, with_lambdas
from plans.nested import ARRAY, MAP, STRUCT, is_nested, parts


def field_of(value: Expr, name: str) -> Expr:
    """Returns a field of a struct, or the value of a map at a key. For an array of structs, returns the array of the
    field."""
    made = parts(value.type) if is_nested(value.type) else None
    if made is not None and made.kind == MAP:
        return call("element_at", value, lit(name))
    if made is not None and made.kind == ARRAY and is_nested(made.types[0]):
        found = with_lambdas("TRANSFORM", [value, Lambda(("x",), lambda known: field_of(known["x"], name))])
        assert found is not None, "TRANSFORM takes a function"
        return found
    if made is None or made.kind == ARRAY:
        raise PlanError(f"a value of type {value.type} has no field {name}", hint="only structs and maps have fields")
    return call("get_field", value, lit(name))


def element_of(value: Expr, index: Expr, first: int = 0) -> Expr:
    """Returns `value[index]`: an element of an array whose first index is `first`, or the value of a map at a key."""
    made = parts(value.type) if is_nested(value.type) else None
    if made is not None and made.kind == STRUCT and index.op == "literal" and isinstance(index.value, str):
        return call("get_field", value, index)
    if made is not None and made.kind == MAP:
        return call("element_at", value, index)
    if made is None or made.kind == STRUCT:
        raise PlanError(f"a value of type {value.type} has no elements", hint="only arrays and maps have elements")
    return call("get", value, call("sub", index, lit(first)) if first else index)


Shown = tuple[tuple[str, tuple[str, ...]], ...]
"""Columns of an element: their names, and the paths of fields to their values."""


def generated(kind: str, value: Expr) -> tuple[Expr, Shown]:
    """Returns the array that EXPLODE, POSEXPLODE or INLINE turns into rows, and the columns of an element."""
    found = parts(value.type) if is_nested(value.type) else None
    if found is None or found.kind == STRUCT:
        raise PlanError(f"{kind.upper()} takes an array or a map, not {value.type}")
    array = call("map_entries", value) if found.kind == MAP else value
    inside = parts(found.types[0]) if found.kind == ARRAY and is_nested(found.types[0]) else None
    shown: Shown = (("key", ("key",)), ("value", ("value",))) if found.kind == MAP else (("col", ()),)
    if kind == "inline":
        if inside is None or inside.kind != STRUCT:
            raise PlanError(f"INLINE takes an array of structs, not {value.type}", hint="use EXPLODE")
        shown = tuple((name, (name,)) for name in inside.names)
    if kind == "posexplode":
        array, shown = call("with_places", array), (("pos", ("pos",)), *below_positions(shown))
    return array, shown


def below_positions(shown: Shown) -> Shown:
    """Returns the columns of an element that is paired with its position."""
    return tuple((name, ("col", *path)) for name, path in shown)


def at(element: Expr, path: Sequence[str]) -> Expr:
    """Returns the part of a value at a path of fields."""
    for name in path:
        element = call("get_field", element, lit(name))
    return element


def struct(values: list[Expr], names: list[str | None]) -> Expr:
    """Returns a struct of values. Fields without a name are named col1, col2, ... by position."""
    pairs = [(name or f"col{i}", value) for i, (name, value) in enumerate(zip(names, values, strict=True), 1)]
    return call("named_struct", *(part for name, value in pairs for part in (lit(name), value)))
