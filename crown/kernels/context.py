"""The state that each device function of the engine takes, as one argument."""

from __future__ import annotations

from typing import Any, NamedTuple


class Context(NamedTuple):
    """Four pointers (see ``pointers``). Kernels pass them on in registers: the tuple exists for the compiler only."""

    arena: Any  # the state, int64 words
    halves: Any  # the same memory as int32
    plan: Any  # the plan array
    scratch: Any  # what a suspended kernel needs to be resumed; of a generic bag the cursor
