"""The parts of JSON texts: elements of arrays, members of objects, and containment.

JSON texts are parsed once per distinct text. An invalid text has no parts: NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function
from plans.expressions.functions.nested.jsonpath import members, rewritten
from plans.nested import array_of, struct_of

_FLAT = array_of(struct_of(["key", "index", "value"], ["string", "int32", "string"]))
_MEMBERS = array_of(struct_of(["key", "value"], ["string", "string"]))


def _read(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an evaluator that applies `make` to the parsed text; NULL if the text is invalid."""

    def evaluate(text: str, *others: str) -> Any:
        try:
            return make(members(text), *others)
        except ValueError:
            return None

    return each(evaluate)


def _elements(plain: bool) -> Callable[[Any], Any]:
    return lambda value: [rewritten(one, plain) for one in value] if isinstance(value, list) else None


def _scalars(value: Any) -> Any:
    there = isinstance(value, list) and all(map(_is_plain, value))
    return [rewritten(one, True) for one in value] if there else None


def _named(plain: bool) -> Callable[[Any], Any]:
    def made(value: Any) -> Any:
        if not isinstance(value, tuple):
            return None
        return [{"key": name, "value": rewritten(one, plain)} for name, one in value]

    return made


def _flat(value: Any) -> Any:
    """Returns the elements of an array with their positions, or the members of an object with their names."""
    pairs: list[tuple[str | None, int | None, Any]] = []
    pairs += [(None, place, one) for place, one in enumerate(value)] if isinstance(value, list) else []
    pairs += [(name, None, one) for name, one in value] if isinstance(value, tuple) else []
    return [{"key": name, "index": place, "value": rewritten(one, True)} for name, place, one in pairs]


def _has(value: Any, name: str) -> bool:
    if isinstance(value, tuple):
        return any(own == name for own, _ in value)
    return name in [one for one in value if isinstance(one, str)] if isinstance(value, list) else value == name


def _contains(value: Any, text: str) -> bool:
    part = members(text)
    found = isinstance(value, list) and _is_plain(part) and any(_same(part, one) for one in value)
    return found or _within(part, value)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, (list, tuple))


def _same(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _within(part: Any, value: Any) -> bool:
    """Returns whether a JSON value contains a part, as `@>` of PostgreSQL does."""
    if isinstance(part, tuple):
        found = dict(value) if isinstance(value, tuple) else None
        return found is not None and all(name in found and _within(one, found[name]) for name, one in part)
    if isinstance(part, list):
        return isinstance(value, list) and all(any(_within(one, own) for own in value) for one in part)
    return _is_plain(value) and _same(part, value)


TABLE = (
    function("json_parts", "string", lambda types, values: array_of("string"), _read(_elements(False)),
             note="The elements of an array as JSON: JSON_ARRAY_ELEMENTS of PostgreSQL.", internal=True),
    function("json_texts", "string", lambda types, values: array_of("string"), _read(_elements(True)),
             note="The elements of an array, strings without their quotes, null as NULL: JSON_ARRAY_ELEMENTS_TEXT.",
             internal=True),
    function("json_scalars", "string", lambda types, values: array_of("string"), _read(_scalars),
             note="JSON_TEXTS, but NULL if an element is an array or an object: JSON_VALUE_ARRAY of BigQuery.",
             internal=True),
    function("json_members", "string", lambda types, values: _MEMBERS, _read(_named(False)),
             note="Keys and values of an object as JSON: JSON_EACH of PostgreSQL.", internal=True),
    function("json_text_members", "string", lambda types, values: _MEMBERS, _read(_named(True)),
             note="Keys and values of an object, strings without their quotes: JSON_EACH_TEXT of PostgreSQL.",
             internal=True),
    function("json_flat", "string", lambda types, values: _FLAT, _read(_flat),
             note="The rows of Snowflake's FLATTEN: names, positions, and values without quotes.", internal=True),
    function("json_has_key", "string string", "bool", _read(_has),
             note="Whether an object has a key, or an array a string: `?` of PostgreSQL.", internal=True),
    function("jsonb_contains", "string string", "bool", _read(_contains),
             note="Whether the first contains the second: `@>` of PostgreSQL."),
)  # fmt: skip
