"""The one way in which this project compiles: ``@kernel``.

Kernels run without the GIL, are compiled once for all plans (a plan is data to them, never a type) and are cached on
disk, see ``crown.compiling.cache``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles ``function`` with Numba: no GIL, NumPy error model, cached on disk.

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


def is_cached(dispatcher: Any, signature: tuple[Any, ...]) -> bool:
    """Returns True iff the kernel is in the cache on disk: made from the present sources, for this processor and for
    arguments of these types.
    """
    return dispatcher._cache.file(signature, dispatcher.targetctx).is_file()


def _compiled(function: Callable[..., Any], counted: bool, **more: bool) -> Any:
    counted = counted or bool(getattr(numba.config, "BOUNDSCHECK", None))  # then pointers are arrays, see ``pointers``
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": counted, **more}
    dispatcher: Any = numba.njit(**options)(function)
    if not getattr(numba.config, "DISABLE_JIT", False):
        from crown.compiling.cache import KernelCache  # here, as kernels do not depend on what it does

        dispatcher._cache = KernelCache(function)
    return dispatcher
