"""The arguments of every device function that changes a state, as one argument."""

from __future__ import annotations

from typing import Any, NamedTuple


class Context(NamedTuple):
    """Four pointers (see `crown.kernels.memory.pointers`). The tuple exists only for the compiler."""

    arena: Any  # the state, int64 words
    halves: Any  # the same memory as int32
    plan: Any  # the plan array
    eps: Any  # the exponents of R, S, T, float64
