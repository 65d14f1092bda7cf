"""Compiles together the kernels of triangles before the first batch, if there is no library."""

from __future__ import annotations

from crown.compiling.warm import ensure_compiled, required_variants
from ivm_triangle.kernels.enumeration import hops, stream
from ivm_triangle.kernels.update import maintain


def ensure_triangle_compiled(streaming: bool) -> None:
    """Compiles the kernels of a `Triangle`, or of a bag (`streaming`)."""
    if streaming:
        found = [*required_variants(stream.__name__, "stream_rows")]
    else:
        found = [
            *required_variants(maintain.__name__, "apply_rows", "load_rows"),
            *required_variants(hops.__name__, "union_rows"),
        ]
    ensure_compiled(found, "kernels for triangles")
