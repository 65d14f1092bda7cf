"""Compiles the kernels that are about to be used, once on a machine, and prints a message.

If the kernels come from a library, nothing is compiled. Otherwise the kernels that are not in the cache are distributed
over one process per processor; each process lowers the functions that its kernels share once.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from crown.compiling.library import PACKAGES, ROOT, library
from crown.compiling.modes import PLAIN
from crown.kernels.jit import declared

Variant = tuple[str, str]
"""The name of a kernel, and the letters of one of its variants."""
SECONDS = 1.0
"""Approximate processor time in seconds to compile a kernel, for each 100 KB of its sources."""
_CHILD = "import sys; from crown.compiling.warm import compile_these; compile_these(sys.argv[1:])"
_done: set[Variant] = set()


def required_variants(module: str, *names: str, none: bool | None = None) -> Iterator[Variant]:
    """Yields the variants of kernels of a module; ``none``: variants that take None somewhere, or those that do not."""
    for name in names:
        for variant in declared[f"{module}.{name}"][1]:
            if none is None or none == ("n" in variant):
                yield f"{module}.{name}", variant


def all_variants() -> list[Variant]:
    """Returns all variants of all kernels. Imports every module of kernels."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("kernels/**/*.py")):
            if file.stem not in {"__init__", "lowered"}:
                importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    return [(name, variant) for name, (_, variants) in declared.items() for variant in variants]


def ensure_compiled(variants: Iterable[Variant], what: str = "kernels") -> int:
    """Compiles kernels of imported modules that are not in the cache. Returns the number of these kernels.

    Takes some seconds of processor time for each of them, and no time otherwise. Checks once per process.
    """
    if PLAIN or library() is not None:
        return 0
    from crown.compiling.dispatch import is_cached

    new = [one for one in dict.fromkeys(variants) if one not in _done]
    _done.update(new)
    missing = [one for one in new if not is_cached(declared[one[0]][0], one[1])]
    if missing:
        _compile(missing, what)
    return len(missing)


def compile_these(words: list[str]) -> None:
    """Compiles variants into the cache: each is given as module, name and letters with colons between them."""
    from crown.compiling.dispatch import compile_variant

    for word in words:
        name, variant = word.split(":")
        importlib.import_module(name.rpartition(".")[0])
        compile_variant(declared[name][0], variant)


def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compile(missing: list[Variant], what: str) -> None:
    import subprocess  # imported here, because usually nothing is compiled

    from crown.compiling.folder import VARIABLE, cache_folder

    shares = _shares(missing, processors())
    seconds = max(sum(map(_cost, share)) for share in shares)
    count = f"{len(missing)} {what}" if len(missing) > 1 else what
    message = f"crown: compiling {count}, once on this machine (about {max(5, 5 * round(seconds / 5))} s) ..."
    print(message, end=" ", file=sys.stderr, flush=True)
    started = time.monotonic()
    environment = {**os.environ, VARIABLE: str(cache_folder()[0])}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, *map(":".join, share)], stderr=subprocess.DEVNULL, env=environment
        )
        for share in shares[1:]
    ]
    try:
        compile_these([":".join(one) for one in shares[0]])
    finally:
        for child in children:
            child.wait()
    compile_these([":".join(one) for one in missing])  # loads from the cache what the children compiled
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _shares(missing: list[Variant], processors: int) -> list[list[Variant]]:
    """Distributes variants over shares that take about the same time; the kernels of a module stay together."""
    modules: dict[str, list[Variant]] = {}
    for one in missing:
        modules.setdefault(one[0].rpartition(".")[0], []).append(one)
    shares: list[list[Variant]] = [[] for _ in range(max(1, min(processors, len(modules))))]
    for group in sorted(modules.values(), key=lambda group: -sum(map(_cost, group))):
        min(shares, key=lambda share: sum(map(_cost, share))).extend(group)
    return shares


def _cost(one: Variant) -> float:
    from crown.compiling.sources import sources_of

    sources = sources_of(Path(declared[one[0]][0].py_func.__code__.co_filename)).values()
    return SECONDS * sum(source.stat().st_size for source in sources) / 1e5
