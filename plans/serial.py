"""JSON of the planner's dataclasses, derived from their fields. `to_json` writes it; `from_json` is its inverse.

A dataclass is an object with its fields, in their order. `json_row = True` makes it a list of their values. A union of
dataclasses is an object with the field `kind`. A mapping to dataclasses is the list of its values, by their `name`. A
class with its own `to_json` and `from_json` uses these. `json_may_lack` of a class names the fields that may be missing
when it is read; they have their defaults then. In a list these are the last fields. A field that may be missing is not
written if it has its default, except if `json_left_out` of the object names the fields that it does not write.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from plans.expressions.expr import Expr

_T = TypeVar("_T")
Written = Callable[[Any], Any]


def to_json(value: Any, written: Written = Expr.to_json) -> Any:
    """Returns the JSON-able form of a dataclass. `written` writes its expressions."""
    return _write_object(value, written)


def from_json(class_: type[_T], data: Any) -> _T:
    """Returns the object that `to_json` wrote. Raises KeyError, TypeError or ValueError for any other input."""
    return _read_object(class_, data)


def canonical(data: Any) -> str:
    """Returns the JSON text of data with sorted names and without spaces. Expressions in it are trees of objects, of
    any depth."""
    out: list[str] = []
    todo: list[tuple[bool, Any]] = [(False, data)]
    while todo:
        done, item = todo.pop()
        if done:
            out.append(item)
        elif isinstance(item, Expr):
            todo.append((False, item.json_node(item.args)))
        elif isinstance(item, dict):
            parts: list[tuple[bool, Any]] = []
            for name in sorted(item):
                parts += [(True, f"{',' if parts else ''}{json.dumps(name)}:"), (False, item[name])]
            todo += reversed([(True, "{"), *parts, (True, "}")])
        elif isinstance(item, (list, tuple)):
            parts = []
            for value in item:
                parts += [(True, ","), (False, value)] if parts else [(False, value)]
            todo += reversed([(True, "["), *parts, (True, "]")])
        else:
            out.append(json.dumps(item))
    return "".join(out)


def kind_name(class_: type) -> str:
    """Returns the name of a class within its union: `JoinStage` is a `join`."""
    return class_.__name__.removesuffix("Stage").lower()


@cache
def _hints(class_: Any) -> dict[str, Any]:
    known = get_type_hints(class_)
    return {field.name: known[field.name] for field in fields(class_) if field.init}


class _Form(NamedTuple):
    """What a type says about the values of a field. `only`: the X of `X | None`; `choices`: the dataclasses of a union
    of several, by their kinds."""

    only: Any
    choices: Mapping[str, type]
    origin: Any
    arguments: tuple[Any, ...]


@cache
def _form(hint: Any) -> _Form:
    parts, choices = [part for part in get_args(hint) if part is not type(None)], []
    if get_origin(hint) in (Union, types.UnionType):
        choices = [part for part in parts if is_dataclass(part) and isinstance(part, type)]
        hint = parts[0] if len(parts) == 1 else hint
    by_kind = {kind_name(choice): choice for choice in choices} if len(choices) > 1 else {}
    return _Form(hint, by_kind, get_origin(hint), get_args(hint))


def _write(hint: Any, value: Any, written: Written) -> Any:
    if value is None:
        return None
    if isinstance(value, Expr):
        return written(value)
    form = _form(hint)
    if form.choices:
        return {"kind": kind_name(type(value)), **_write_object(value, written)}
    if is_dataclass(value):
        return value.to_json() if hasattr(value, "to_json") else _write_object(value, written)
    if isinstance(value, Mapping):
        inner = form.arguments[1] if len(form.arguments) == 2 else Any
        return [_write(inner, v, written) for v in value.values()] if is_dataclass(inner) else dict(value)
    if isinstance(value, (tuple, list)):
        inner = form.arguments[0] if form.origin is tuple else Any
        return [_write(inner, v, written) for v in value]
    return value


def _write_object(value: Any, written: Written) -> Any:
    class_: Any = type(value)
    left_out = value.json_left_out() if hasattr(value, "json_left_out") else _with_defaults(value)
    parts = {
        name: _write(inner, getattr(value, name), written)
        for name, inner in _hints(class_).items()
        if name not in left_out
    }
    return list(parts.values()) if getattr(value, "json_row", False) else parts


def _with_defaults(value: Any) -> set[str]:
    """Returns the fields that may be missing and have their defaults; of a list, those after the last other one."""
    optional = getattr(value, "json_may_lack", ())
    given = [n for n, name in enumerate(optional) if getattr(value, name) != getattr(type(value), name)]
    if getattr(value, "json_row", False):
        return set(optional[given[-1] + 1 :] if given else optional)
    return set(optional).difference(optional[n] for n in given)


def _read(hint: Any, data: Any) -> Any:
    if data is None:
        return None
    hint, choices, origin, arguments = _form(hint)
    if choices:
        hint = choices.get(data["kind"])
        if hint is None:
            raise ValueError(f"{data['kind']!r} is not a kind of stage")
    if isinstance(hint, type) and "from_json" in vars(hint):
        itself: Any = hint
        return itself.from_json(data)
    if isinstance(hint, type) and is_dataclass(hint):
        return _read_object(hint, data)
    if origin is tuple:
        return tuple(_read(arguments[0], item) for item in data)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if is_dataclass(arguments[1]):
            return {item.name: item for item in (_read(arguments[1], part) for part in data)}
        return dict(data)
    return _tuples(data) if isinstance(data, list) else data


def _read_object(class_: Any, data: Any) -> Any:
    hints = _hints(class_)
    optional = getattr(class_, "json_may_lack", ())
    if getattr(class_, "json_row", False):
        absent = list(hints)[len(data) :]
        if len(data) > len(hints) or not set(absent) <= set(optional):
            raise ValueError(f"{kind_name(class_)} has {len(hints)} parts, not {len(data)}")
        return class_(*(_read(hint, part) for hint, part in zip(hints.values(), data, strict=False)))
    given = {name: _read(hint, data[name]) for name, hint in hints.items() if name in data or name not in optional}
    return class_(**given)


def _tuples(data: Any) -> Any:
    """Returns nested lists as nested tuples."""
    return tuple(_tuples(item) for item in data) if isinstance(data, list) else data
