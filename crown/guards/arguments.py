"""Checks arguments of public functions. A wrong value is an error of one sentence.

All functions parse sizes, whole numbers and paths in the same way.
"""

from __future__ import annotations

import errno
import operator
import os
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from crown.errors import CrownError

Size = int | str
"""Bytes: a whole number, or a text such as ``"512 MiB"``, ``"1.5GB"`` or, in Java's notation, ``"2g"``."""

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{rest}": base**power
    for power, letter in enumerate("kmgt", 1)
    for rest, base in (("b", 1000), ("ib", 1024), ("", 1024))
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)
_MOST = 1 << 60  # bytes; more than any machine has, and still far from the end of an int64


def size_of(given: Any, name: str, least: int = 1) -> int:
    """Returns the bytes of a size, which is a number or a text with a unit.

    KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB, and k, m, g, t in the notation of Java and Spark, are powers
    of 1024.

    Raises CrownError for anything else, and for less than ``least`` bytes.
    """
    number = _whole(given)
    if isinstance(given, str):
        match = _SIZE.fullmatch(given)
        unit = _UNITS.get(match[2].lower()) if match else None
        number = None if match is None or unit is None else int(Decimal(match[1]) * unit)
    if number is None or not 0 < number < _MOST:
        raise CrownError(
            f'{name} must be a positive number of bytes, such as 512 << 20 or "512 MiB", not {given!r:.100}'
        )
    if number < least:
        enough = f"{least >> 20} MiB" if least >= 1 << 20 else f"{least >> 10} KiB"
        raise CrownError(f"{name}={given!r} is too small to start with; give at least {enough}")
    return number


def number_of(given: Any, name: str, least: int, most: int | None = None) -> int:
    """Returns a whole number from ``least`` to ``most``. Raises CrownError for anything else, including True."""
    number = _whole(given)
    if number is None or number < least or (most is not None and number > most):
        span = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise CrownError(f"{name} must be a whole number {span}, not {given!r:.100}")
    return number


def flag_of(given: Any, name: str) -> bool:
    """Returns True or False. Raises CrownError for anything else."""
    if given is True or given is False or isinstance(given, np.bool_):
        return bool(given)
    raise CrownError(f"{name} must be True or False, not {given!r:.100}")


def one_of(given: Any, name: str, known: Sequence[str]) -> str:
    """Returns one of the ``known`` words. Raises CrownError for anything else."""
    if isinstance(given, str) and given in known:
        return given
    offered = " or ".join((", ".join(f'"{word}"' for word in known[:-1]), f'"{known[-1]}"'))
    raise CrownError(f"{name} must be {offered}, not {given!r:.100}")


def path_of(given: Any, name: str) -> Path:
    """Returns the path of a text or a path object; a leading ``~`` is the home folder.

    Raises CrownError for anything else.
    """
    try:
        text = os.fspath(given)
    except TypeError:
        text = b""
    if not isinstance(text, str) or not text or "\0" in text:
        raise CrownError(f"{name} must be a path, as text or pathlib.Path, not {given!r:.100}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CrownError(f"{name}={text!r} is not valid UTF-8, which Arrow requires: use another name") from None
    path = Path(os.path.expanduser(text))
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise CrownError(f"{name}={text[:50] + '...'!r} is too long for the name of a file: shorten it") from None
    return path


def file_of(given: Any, name: str) -> Path:
    """Returns the path of a file to be created. Raises CrownError if the path is a folder, or if its parent folder does
    not exist.
    """
    path = path_of(given, name)
    if os.path.isdir(path):
        raise CrownError(f"{name}={str(path)!r} is a folder; name a file in it")
    if not os.path.isdir(path.parent):
        raise CrownError(f"{name}={str(path)!r}: there is no folder {str(path.parent)!r}; create it first")
    return path


def same_file(one: Path, other: Path) -> bool:
    """Returns True iff both paths resolve to the same file, which need not exist. Follows links."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _whole(given: Any) -> int | None:
    """Returns the value of an integer of any library, or of an integral float; None for anything else, including
    booleans.
    """
    if isinstance(given, float) and given.is_integer():
        return int(given)
    try:
        return None if type(given).__name__ in ("bool", "bool_") else operator.index(given)
    except TypeError:
        return None
