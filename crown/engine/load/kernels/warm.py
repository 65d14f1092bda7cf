"""Compiles together the kernels of large loads before the first one, if there is no library."""

from __future__ import annotations

from crown.compiling.warm import ensure_compiled, required_variants
from crown.engine.load.kernels import bulk


def ensure_load_compiled(weighed: bool) -> None:
    """Compiles the kernels of loads. ``weighed``: those of plans with payloads."""
    load = required_variants(bulk.__name__, "load_batch", none=not weighed)
    ensure_compiled([*load, *required_variants(bulk.__name__, "reserve_tables")], "kernels for large loads")
