"""Compiles kernels, and the functions that they call, with Numba.

Numba compiles each function separately: it optimizes and emits the function together with all functions that it calls.
A *device* function is called by kernels only, so it is only lowered here, and optimized once in each kernel that uses
it. That halves the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target
from numba.core.types import Array, Boolean, Integer, NoneType

from crown.compiling.cache import KernelCache
from crown.compiling.modes import CHECKED
from crown.compiling.signatures import numba_types
from crown.kernels import lowered  # imported before anything is compiled, so that Numba knows them

_njit: Any = numba.njit  # Numba's types omit the options that begin with an underscore or "no"
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": CHECKED}
"""References are counted where indices are checked, because pointers are arrays then, see
``crown.kernels.memory.pointers``.
"""
_UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def dispatcher(function: Callable[..., Any], declared: tuple[str, ...]) -> Any:
    """Returns the dispatcher that Python calls: it compiles for the types of its arguments, which must be declared."""
    made = _njit(**_OPTIONS)(function)
    made._cache = _DeclaredCache(function, made, declared)
    return made


def compile_variant(kernel: Any, variant: str) -> None:
    """Compiles a kernel for the types of a variant, or loads it from the cache."""
    kernel.compile(numba_types(variant))


def compiled_alone(kernel: Any, variant: str) -> Any:
    """Returns Numba's compilation of a variant, without the wrappers that Python needs to call it."""
    alone: Any = _njit(**_OPTIONS, **_UNWRAPPED)(kernel.py_func)
    types = numba_types(variant)
    alone.compile(types)
    return alone.overloads[types]


def is_cached(kernel: Any, variant: str) -> bool:
    """Returns True iff a variant is in the cache on disk, made from the current sources, for this processor."""
    return bool(kernel._cache.file(numba_types(variant), kernel.targetctx).is_file())


def device_dispatcher(function: Callable[..., Any]) -> Any:
    """Returns the dispatcher of a function that kernels call."""
    return _njit(**_OPTIONS, **_UNWRAPPED, pipeline_class=_DevicePipeline)(function)


def intrinsic_type(name: str) -> Any:
    """Returns the type of an intrinsic of ``crown.kernels.lowered``."""
    return cpu_target.typing_context.resolve_value_type(getattr(lowered, name))


class _DeclaredCache(KernelCache):
    """The cache of a kernel, which Numba reads before it compiles. Rejects types that are not declared.

    So code that runs here also runs with a library. Kernels that call this kernel pass pointers.
    """

    def __init__(self, function: Callable[..., Any], kernel: Any, declared: tuple[str, ...]) -> None:
        super().__init__(function)
        self._kernel = kernel
        self._declared = [numba_types(variant) for variant in declared]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Returns the compiled form for a signature, or None. Raises TypeError.

        An array that may be written to is passed as a read-only one where that is declared: Numba would compile the
        kernel once more.
        """
        types = tuple(numba.types.unliteral(one) for one in signature)
        if not self._declared or not all(isinstance(one, (Array, Boolean, Integer, NoneType)) for one in types):
            return super().load_overload(signature, target)
        variant = next((one for one in self._declared if all(map(_fits, types, one))), None)
        if variant is None:
            given = ", ".join(map(str, types))
            raise TypeError(f"{self._function.__name__}() takes other arguments than ({given})")
        if variant == types:
            return super().load_overload(signature, target)
        self._kernel.compile(variant)
        compiled = self._kernel.overloads[variant]
        return compiled._replace(signature=compiled.signature.replace(args=types), metadata={})


def _fits(given: Any, declared: Any) -> bool:
    if isinstance(given, Array) and isinstance(declared, Array):
        same = (given.dtype, given.ndim, given.layout) == (declared.dtype, declared.ndim, declared.layout)
        return bool(same and (given.mutable or not declared.mutable))
    return bool(given == declared)


class _DeviceLibrary(JITCodeLibrary):
    """Code that is only linked into other code."""

    @property
    def codegen(self) -> Any:
        return _Environments(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


class _Environments:
    """Numba's code generator for code without an address, into which no address of a Python object can be written."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, environment: Any) -> None:
        """Does nothing: the environment is set where the code is linked, if it is used there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class _DevicePipeline(Compiler):
    """Numba's own pipeline, which ends in a ``_DeviceLibrary``."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _DeviceLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()
