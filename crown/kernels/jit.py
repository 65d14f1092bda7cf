"""The one way in which this project compiles: ``@kernel``.

Kernels run without the GIL, are compiled once for all plans (a plan is data to them, never a type) and are cached on
disk. Numba stamps a cached function with the time of its own source file only, so a change in a callee of another file
would go unseen; here the stamp is a digest over every kernel source of the family.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numba

_ROOT = Path(__file__).parent.parent


@cache
def family_stamp(directory: Path) -> str:
    """Returns a digest over the kernel sources that a kernel in ``directory`` may call.

    These are all below the outermost folder ``kernels`` of its package that holds it (below its own folder, if none
    does), and below every folder ``kernels`` of ``crown``, at any depth.
    """
    inside = takewhile(lambda folder: (folder / "__init__.py").is_file(), (directory, *directory.parents))
    family = [folder for folder in inside if folder.name == "kernels"] or [directory]
    folders = {family[-1], *(folder for folder in _ROOT.rglob("kernels") if folder.is_dir())}
    digest = hashlib.sha256()
    for source in sorted({source for folder in folders for source in folder.rglob("*.py")}):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles ``function`` with Numba: no GIL, NumPy error model, cached on disk under the family's stamp.

    It MUST NOT allocate arrays: reference counting is off. See ``allocating_kernel``. A kernel that Python calls begins
    by making pointers of its arrays, see ``pointers``; those that it calls take pointers.
    """
    return _compiled(function, counted=False)


def device(function: Callable[..., Any]) -> Any:
    """Returns a function that only kernels call, with pointers: it lacks the two wrappers that Python would need.

    Called from Python it runs uncompiled, with arrays. Where the kernels come from the cache nobody asks for the
    compiled form, and it is not even prepared: there are some hundred such functions.
    """
    return function if getattr(numba.config, "DISABLE_JIT", False) else _Device(function)


class _Device:
    """What kernels see as a compiled function, and Python as the function that is compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _dispatcher(self) -> Any:
        return _compiled(self._function, counted=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)

    @cached_property
    def _numba_type_(self) -> Any:
        return numba.types.Dispatcher(self._dispatcher)

    def compile(self, signature: tuple[Any, ...]) -> None:
        """Compiles for arguments of these types, or takes what the cache has."""
        self._dispatcher.compile(signature)

    def __call__(self, *args: object) -> Any:
        return self._function(*args)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """Compiles as ``kernel`` does, for functions that make temporary arrays; they run once per batch, not per row."""
    return _compiled(function, counted=True)


def is_cached(dispatcher: Any, signature: tuple[Any, ...] | None = None) -> bool:
    """Returns True iff a compiled form of the kernel, made from the present sources, is in the cache on disk.

    ``signature``: of its arguments, if it has to be a certain one.
    """
    cache = getattr(dispatcher, "_cache", None)
    if cache is None:
        return False
    return any(signature is None or key[0] == signature for key in cache._cache_file._load_index())


def _compiled(function: Callable[..., Any], counted: bool, **more: bool) -> Any:
    counted = counted or bool(getattr(numba.config, "BOUNDSCHECK", None))  # then pointers are arrays, see ``pointers``
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": counted, **more}
    dispatcher = numba.njit(**options)(function)
    cache = getattr(dispatcher, "_cache", None)  # a plain function when NUMBA_DISABLE_JIT is set
    if cache is not None:
        cache._cache_file._source_stamp = family_stamp(Path(function.__code__.co_filename).parent)
    return dispatcher
