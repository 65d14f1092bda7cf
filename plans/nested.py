"""Types with parts: `array<T>`, `map<K,V>` and `struct<a:T,b:U>`, as Spark writes them.

They are read as other engines write them, too: `T[]`, `struct<a T>`, `struct(a T)`, `map(K, V)`. Names of fields keep
their spelling, and are told apart without regard to case. A field with another name than a plain word stands in
backticks.
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
    """What a type is made of: its `kind`, and its parts with their names, which only those of a struct have."""

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
        """Returns which part a field of a struct is, by its name in any case; None if there is none."""
        return next((i for i, known in enumerate(self.names) if known.lower() == name.lower()), None)


def is_nested(type_: str) -> bool:
    """Returns whether values of a type, given by its normal name, have parts."""
    return type_.endswith(">")


@cache
def parts(type_: str) -> Parts | None:
    """Returns what a type is made of, as it is written; None if it has no parts. ValueError if they are misspelled."""
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
    """Returns the type of arrays of a type."""
    return Parts(ARRAY, (element,)).named()


def struct_of(names: Sequence[str], types: Sequence[str]) -> str:
    """Returns the type of structs with these fields."""
    return Parts(STRUCT, tuple(types), tuple(names)).named()


def element_of(type_: str) -> str | None:
    """Returns the type of the elements of an array type; None for other types."""
    found = parts(type_) if is_nested(type_) else None
    return found.types[0] if found is not None and found.kind == ARRAY else None


def matched(left: str, right: str, common: Callable[[str, str], str | None]) -> str | None:
    """Returns the type whose parts are what two types' parts have in `common`; None if they are not alike.

    The names are those of the first.
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
    """Returns whether a type is one of maps, or has them among its parts: its values are not compared."""
    found = parts(type_) if is_nested(type_) else None
    return found is not None and (found.kind == MAP or any(map(has_map, found.types)))


def _spelled(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def split(text: str) -> list[str]:
    """Returns what stands between the commas of a text that are in no brackets and no quotes of names."""
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
