"""Datetime patterns of Java's DateTimeFormatter, as far as Spark supports them: `yyyy-MM-dd`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from plans.errors import PlanError

_LETTERS = {
    "G": 5, "y": 9, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "F": 1, "Q": 4, "q": 4, "a": 1, "h": 2, "H": 2, "k": 2,
    "K": 2, "m": 2, "s": 2, "S": 9, "V": 2, "z": 4, "O": 4, "X": 5, "x": 5, "Z": 5,
}  # fmt: skip
_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'])", re.DOTALL)


@dataclass(frozen=True)
class Item:
    """A part of a pattern: a letter and its count; `text` for literal text; `[` and `]` enclose an optional section."""

    letter: str
    count: int = 0
    text: str = ""


@cache
def items(pattern: str) -> tuple[Item, ...]:
    """Returns the parts of a pattern. Raises PlanError for patterns that Spark rejects, or that are not supported
    here."""
    found, at = [], 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise PlanError(f"the pattern {pattern!r} has an opening quote without a closing quote")
        at = part.end()
        if part[1] is not None:
            letter, count = part[1], len(part[0])
            fits = count <= _LETTERS.get(letter, 0) and (letter, count) not in (("V", 1), ("O", 2), ("O", 3))
            if not fits or (letter == "G" and count > 3):
                raise PlanError(
                    f"the pattern {pattern!r} has {part[0]!r}, which is not supported",
                    hint="letters are " + " ".join(_LETTERS) + "; write text in single quotes",
                )
            found.append(Item(letter, count))
        elif part[2] is not None:
            found.append(Item("", 0, part[2].replace("''", "'") or "'"))
        elif part[3] in "[]":
            found.append(Item(part[3]))
        elif part[3] in "{}#":
            raise PlanError(f"the pattern {pattern!r} has {part[3]!r}, which is reserved", hint="write it in quotes")
        else:
            found.append(Item("", 0, part[3]))
    depth = 0
    for item in found:
        depth += (item.letter == "[") - (item.letter == "]")
        if depth < 0:
            break
    if depth:
        raise PlanError(f"the pattern {pattern!r} has brackets that do not match")
    return tuple(found)
