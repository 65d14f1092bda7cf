"""``@kernel`` and ``@device``: how functions of this project are compiled.

Kernels run without the GIL and are compiled once for all plans: a plan is data to them, never a type. They come from
the library that was compiled when the package was built, see ``crown.compiling.library``. Where there is none, Numba
compiles them when they are called, and keeps them on disk, see ``crown.compiling.cache``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from crown.compiling.library import library, library_state
from crown.compiling.modes import CHECKED, PLAIN
from crown.compiling.signatures import variants

declared: dict[str, tuple[Any, tuple[str, ...]]] = {}
"""Kernels with a signature, of modules that were imported: by name, with their variants."""


def kernel(signature: str | Callable[..., Any]) -> Any:
    """Returns the decorator of functions that Python calls with arguments of these types.

    ``signature``: see ``crown.compiling.signatures``. A kernel that is decorated without one is not in the library, and
    takes whatever Numba compiles. A kernel MUST NOT allocate arrays: references are not counted. It begins by making
    pointers of its arrays, see ``pointers``; those that it calls take pointers.
    """
    if callable(signature):
        return _kernel(signature, ())
    taken = variants(signature)

    def decorated(function: Callable[..., Any]) -> Any:
        name = f"{function.__module__}.{function.__qualname__}"
        made = _kernel(function, taken, name)
        declared[name] = made, taken
        return made

    return decorated


def _kernel(function: Callable[..., Any], taken: tuple[str, ...], name: str = "") -> Any:
    if PLAIN:
        return function
    there = library() if name else None
    if there is not None and name in there.kernels:
        from crown.compiling.bound import bind

        return bind(function, there.kernels[name], lambda: _compiled(function, taken))
    return _compiled(function, taken)


def device(function: Callable[..., Any]) -> Any:
    """Returns a function that only kernels call, with pointers: it lacks the two wrappers that Python would need.

    Called from Python it runs uncompiled, with arrays. Where the kernels need not be compiled the compiled form
    is not asked for, and not even prepared: there are some hundred such functions.
    """
    return function if PLAIN else _Device(function)


def instruction(plain: Callable[..., Any], name: str, indexing: bool = False) -> Any:
    """Returns a function that kernels run as a few instructions of the processor, ``crown.kernels.lowered.<name>``.

    ``plain``: does the same in Python, when kernels run as plain Python. ``indexing``: it takes pointers; where indices
    are checked, arrays stand in for them, and the plain function is compiled.
    """
    return plain if PLAIN else _Instruction(plain, name, indexing)


class _Device:
    """What kernels see as a compiled function, and Python as the function that is compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _dispatcher(self) -> Any:
        from crown.compiling.dispatch import device_dispatcher

        return device_dispatcher(self._function)

    @cached_property
    def _numba_type_(self) -> Any:
        from numba import types

        return types.Dispatcher(self._dispatcher)  # which does not keep it alive

    def __call__(self, *args: object) -> Any:
        return self._function(*args)


class _Instruction(_Device):
    """What kernels see as an intrinsic."""

    def __init__(self, plain: Callable[..., Any], name: str, indexing: bool) -> None:
        super().__init__(plain)
        self._name = name
        self._indexing = indexing

    @cached_property
    def _numba_type_(self) -> Any:
        if CHECKED and self._indexing:
            return super()._numba_type_
        from crown.compiling.dispatch import intrinsic_type

        return intrinsic_type(self._name)


def _compiled(function: Callable[..., Any], taken: tuple[str, ...]) -> Any:
    try:
        from crown.compiling.dispatch import dispatcher
    except ModuleNotFoundError:
        from crown.errors import needs  # here, as kernels are built where little is installed

        with needs(f"compiling kernels ({library_state()})"):
            raise
    return dispatcher(function, taken)
