"""Kernels of the library, in the forms that Python and Numba call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from crown.compiling.native import Kernel


class Bound(Kernel):
    """A kernel that Python calls in the library. A kernel that Numba compiles calls Numba's form of it instead."""

    _dispatcher: Callable[[], Any]

    @cached_property
    def _compiled(self) -> Any:
        return self._dispatcher()

    @cached_property
    def _numba_type_(self) -> Any:
        from numba import types

        return types.Dispatcher(self._compiled)  # which does not keep the dispatcher alive


def bind(function: Any, variants: tuple[tuple[int, ...], ...], dispatcher: Callable[[], Any]) -> Any:
    """Returns the kernel of the library with this name. ``dispatcher`` makes Numba's form of it."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    bound: Any = Bound(function.__name__, names, variants)
    bound.__doc__, bound.__module__, bound.__wrapped__ = function.__doc__, function.__module__, function
    bound._dispatcher = dispatcher
    return bound
