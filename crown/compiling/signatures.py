"""The types of a kernel's parameters, as a text: ``"words, halves, int, none | int, const bytes"``.

``words``, ``halves``, ``bytes``, ``floats`` and ``flags`` are one-dimensional C-contiguous arrays of int64, int32,
uint8, float64 and bool, ``table`` is a two-dimensional one of int64; ``int`` is an int64, ``bool`` a bool, ``none`` is
None. ``const`` marks an array that may be read-only, because the kernel only reads it. Alternatives are separated by
``|``: the kernel is compiled once for each combination, which is a *variant*. A variant has a letter for each
parameter.
"""

from __future__ import annotations

from itertools import product
from typing import Any

LETTERS = {
    "words": "w",
    "table": "t",
    "halves": "h",
    "bytes": "b",
    "floats": "f",
    "flags": "g",
    "int": "i",
    "bool": "l",
    "none": "n",
}


def variants(signature: str) -> tuple[str, ...]:
    """Returns the letters of each variant; a capital letter marks an array that may be read-only."""
    parts = [[_letter(one.strip()) for one in part.split("|")] for part in signature.split(",")]
    return tuple("".join(letters) for letters in product(*parts))


def _letter(text: str) -> str:
    name = text.removeprefix("const ")
    return LETTERS[name].upper() if name != text else LETTERS[name]


def numba_types(variant: str) -> tuple[Any, ...]:
    """Returns the Numba types of a variant's parameters."""
    from numba import boolean, float64, int32, int64, none, uint8
    from numba.core.types import Array

    scalars = {"i": int64, "l": boolean, "n": none}
    arrays = {
        "w": (int64, 1),
        "t": (int64, 2),
        "h": (int32, 1),
        "b": (uint8, 1),
        "f": (float64, 1),
        "g": (boolean, 1),
    }
    return tuple(
        scalars[letter] if letter in scalars else Array(*arrays[letter.lower()], "C", readonly=letter.isupper())
        for letter in variant
    )
