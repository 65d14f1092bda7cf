"""The library of kernels that was compiled when the package was built, if there is one for this processor.

Its stamp is a digest of the sources of all kernels: a library of other sources is not used.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from crown.compiling.modes import COMPILING, PLAIN

ROOT = Path(__file__).parents[2]
PACKAGES = ("crown", "ivm_triangle")
"""Packages whose kernels are in the library."""
FOLDER = Path(__file__).parent / "libraries"
LAYOUT = "1"
"""Changes with the arguments of an entry; see ``native.c``."""


@dataclass(frozen=True)
class Library:
    """A loaded library: its processor, and the variants of each kernel for ``native.Kernel``."""

    processor: str
    kernels: dict[str, tuple[tuple[int, ...], ...]]


def stamp() -> str:
    """Returns the digest of the sources of all kernels, and the version of the layout."""
    digest = hashlib.sha256(LAYOUT.encode())
    for file in sorted(file for package in PACKAGES for file in (ROOT / package).rglob("kernels/**/*.py")):
        digest.update(file.relative_to(ROOT).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def library() -> Library | None:
    """Returns the library, or None if there is none for these sources and this processor, or if it is disabled."""
    return None if COMPILING or PLAIN else _found()[0]


def library_state() -> str:
    """Returns a sentence that describes the library, or the reason why there is none."""
    found, reason = _found()
    if found is not None and library() is None:
        return f"the library for {found.processor} is not used, as CROWN_JIT or a variable of Numba is set"
    return f"the library for {found.processor} that came with the package" if found else reason


@cache
def _found() -> tuple[Library | None, str]:
    if not any(FOLDER.glob("*.so")):
        return None, "no library came with the package"
    try:
        from crown.compiling.native import entries, processors
    except ImportError as error:
        return None, f"the library cannot be called ({error})"
    import ctypes

    for processor in processors():
        file = FOLDER / f"{processor}.so"
        if not file.exists():
            continue
        loaded = ctypes.CDLL(str(file))
        found = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(loaded, "crown_stamp"))).decode()
        if found != stamp():
            return None, "the library is of other sources of the kernels"
        kernels: dict[str, Any] = {}
        for name, _, _, *addresses in entries(ctypes.addressof(ctypes.c_char.in_dll(loaded, "crown_entries"))):
            kernels.setdefault(name, []).append(tuple(addresses))
        return Library(processor, {name: tuple(variants) for name, variants in kernels.items()}), ""
    return None, "no library for this processor came with the package"
