"""``@kernel`` and ``@device``: how functions of this project are compiled.

Kernels run without the GIL and are compiled once for all plans: a plan is data to them, never a type. They are loaded
from the library that was compiled when the package was built, see ``crown.compiling.library``. Without a library, Numba
compiles them on their first call, and caches them on disk, see ``crown.compiling.cache``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from crown.compiling.library import library, library_state
from crown.compiling.modes import CHECKED, PLAIN
from crown.compiling.signatures import variants

declared: dict[str, tuple[Any, tuple[str, ...]]] = {}
"""Kernels with a signature, of imported modules: name -> kernel and its variants."""


def kernel(signature: str | Callable[..., Any]) -> Any:
    """Returns the decorator of functions that Python calls with arguments of these types.

    ``signature``: see ``crown.compiling.signatures``. A kernel without a signature is not in the library, and accepts
    all types that Numba compiles. A kernel MUST NOT allocate arrays: references are not counted. It first converts its
    arrays to pointers, see ``pointers``, and passes pointers to device functions.
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
    """Returns a function that only kernels call, with pointers, so that it needs no wrappers for Python.

    Called from Python, it runs uncompiled, with arrays. Unless kernels must be compiled, its compiled form is not even
    prepared: there are hundreds of such functions.
    """
    return function if PLAIN else _Device(function)


def instruction(plain: Callable[..., Any], name: str, indexing: bool = False) -> Any:
    """Returns a function that kernels inline as a few processor instructions, ``crown.kernels.lowered.<name>``.

    ``plain``: the equivalent in Python, for kernels that run as plain Python. ``indexing``: True if it takes pointers;
    if indices are checked, it takes arrays instead, and the plain function is compiled.
    """
    return plain if PLAIN else _Instruction(plain, name, indexing)


class _Device:
    """A compiled function to kernels, and the uncompiled function to Python."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _dispatcher(self) -> Any:
        from crown.compiling.dispatch import device_dispatcher

        return device_dispatcher(self._function)

    @cached_property
    def _numba_type_(self) -> Any:
        from numba import types

        return types.Dispatcher(self._dispatcher)  # it holds no reference to the dispatcher

    def __call__(self, *args: object) -> Any:
        return self._function(*args)


class _Instruction(_Device):
    """An intrinsic to kernels, and the plain function to Python."""

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
        from crown.errors import needs  # imported here: kernels are also built in minimal environments

        with needs(f"compiling kernels ({library_state()})"):
            raise
    return dispatcher(function, taken)
