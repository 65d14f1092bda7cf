"""The state that every device function of the engine takes, as one argument."""

from __future__ import annotations

from typing import Any, NamedTuple


class Context(NamedTuple):
    """Four pointers (see ``pointers``). They are passed in registers; the tuple exists only for the compiler."""

    arena: Any  # the state, int64 words
    halves: Any  # the same memory as int32
    plan: Any  # the plan array
    scratch: Any  # the state of a suspended kernel; of a generic bag the cursor
