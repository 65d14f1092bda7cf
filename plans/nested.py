"""Nested types: `array<T>`, `map<K,V>` and `struct<a:T,b:U>`, in Spark's notation.

The notations of other engines are read, too: `T[]`, `struct<a T>`, `struct(a T)`, `map(K, V)`. Names of fields keep
their spelling and are compared without regard to case. The name of a field is quoted in backticks unless it is a plain
word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

_OUTSIDE = re.compile(r"\s*(array|map|struct|list|row)\s*([<(])(.*)([>)])\s*", re.IGNORECASE | re.DOTALL)
_ARRAY = re.compile(r"(.*\S)\s*\[\s*\]\s*", re.DOTALL)
_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*))\s*(?::|\s)\s*(.+)", re.DOTALL)
_PLAIN = re.compile(r"[^\W\d]\w*")
_CLOSING = {"<": ">", "(": ")"}
ARRAY, MAP, STRUCT = "array", "map", "struct"
_KINDS = {"array": ARRAY, "list": ARRAY, "map": MAP, "struct": STRUCT, "row": STRUCT}


class Parts(NamedTuple):
    """The parts of a type: its `kind`, and the types of its parts. Only the parts of a struct have names."""

    kind: str
    types: tuple[str, ...]
    names: tuple[str, ...] = ()

    def named(self) -> str:
        """Returns the name of the type."""
        if self.kind != STRUCT:
            return f"{self.kind}<{','.join(self.types)}>"
        fields = (f"{_spelled(name)}:{type_}" for name, type_ in zip(self.names, self.types, strict=True))
        return f"{STRUCT}<{','.join(fields)}>"

    def with_types(self, types: Sequence[str]) -> str:
        """Returns the name of a type of the same kind and names with other parts."""
        return self._replace(types=tuple(types)).named()

    def place(self, name: str) -> int | None:
        """Returns the position of a field of a struct by its name, ignoring case, or None if there is none."""
        return next((i for i, known in enumerate(self.names) if known.lower() == name.lower()), None)


def is_nested(type_: str) -> bool:
    """Returns whether a type, given by its normal name, is nested."""
    return type_.endswith(">")


def is_struct(type_: str) -> bool:
    """Returns whether a type is that of structs."""
    found = parts(type_) if is_nested(type_) else None
    return found is not None and found.kind == STRUCT


@cache
def parts(type_: str) -> Parts | None:
    """Returns the parts of a type in any notation, or None if it is not nested. Raises ValueError if it is
    misspelled."""
    found = _ARRAY.fullmatch(type_)
    if found is not None:
        return Parts(ARRAY, (found[1].strip(),))
    found = _OUTSIDE.fullmatch(type_)
    if found is None:
        return None
    if _CLOSING[found[2]] != found[4]:
        raise ValueError(f"{found[2]} is closed by {found[4]}")
    kind, inside = _KINDS[found[1].lower()], split(found[3])
    if kind != STRUCT:
        wanted = 1 if kind == ARRAY else 2
        if len(inside) != wanted or not all(inside):
            raise ValueError(f"{kind} has {'one type' if wanted == 1 else 'two types'} in it")
        return Parts(kind, tuple(inside))
    fields = [_FIELD.fullmatch(field) for field in inside]
    names = tuple((field[1] or field[2] or "").replace("``", "`") for field in fields if field is not None)
    if len(names) < len(fields) or not fields:
        raise ValueError("a field of a struct is a name and a type")
    twice = next((name for i, name in enumerate(names) if name.lower() in [n.lower() for n in names[:i]]), None)
    if twice is not None:
        raise ValueError(f"a struct has two fields called {twice}")
    return Parts(kind, tuple(field[3].strip() for field in fields if field is not None), names)


def array_of(element: str) -> str:
    """Returns the array type of an element type."""
    return Parts(ARRAY, (element,)).named()


def map_of(key: str, value: str) -> str:
    """Returns the type of maps from keys to values of these types."""
    return Parts(MAP, (key, value)).named()


def struct_of(names: Sequence[str], types: Sequence[str]) -> str:
    """Returns the type of structs with these fields."""
    return Parts(STRUCT, tuple(types), tuple(names)).named()


def element_of(type_: str) -> str | None:
    """Returns the element type of an array type, or None for other types."""
    found = parts(type_) if is_nested(type_) else None
    return found.types[0] if found is not None and found.kind == ARRAY else None


def matched(left: str, right: str, common: Callable[[str, str], str | None]) -> str | None:
    """Returns the type whose parts are the `common` types of the parts of two types, or None if the types do not match.

    The names are those of the first type.
    """
    one, two = (parts(type_) if is_nested(type_) else None for type_ in (left, right))
    if one is None or two is None or one.kind != two.kind or len(one.types) != len(two.types):
        return None
    if [name.lower() for name in one.names] != [name.lower() for name in two.names]:
        return None
    found = [common(a, b) for a, b in zip(one.types, two.types, strict=True)]
    types = [type_ for type_ in found if type_ is not None]
    return one.with_types(types) if len(types) == len(found) else None


def has_map(type_: str) -> bool:
    """Returns whether a type is a map, or contains one. Its values cannot be compared."""
    found = parts(type_) if is_nested(type_) else None
    return found is not None and (found.kind == MAP or any(map(has_map, found.types)))


def _spelled(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def split(text: str) -> list[str]:
    """Returns the parts of a text between commas that are outside of brackets and quoted names."""
    found, depth, quote, start = [], 0, "", 0
    for i, sign in enumerate(text):
        if sign in '`"' and quote in ("", sign):
            quote = "" if quote else sign
        elif not quote:
            depth += (sign in "<(") - (sign in ">)")
            if sign == "," and depth == 0:
                found.append(text[start:i])
                start = i + 1
    return [part.strip() for part in (*found, text[start:])]
