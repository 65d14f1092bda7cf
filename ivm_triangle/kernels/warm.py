"""Compiles together the kernels of triangles before the first batch, if there is no library."""

from __future__ import annotations

from crown.compiling.warm import ensure_compiled, wanted
from ivm_triangle.kernels.enumeration import hops, stream
from ivm_triangle.kernels.update import maintain


def ensure_triangle_compiled(streaming: bool) -> None:
    """Compiles the kernels of a `Triangle`, or of a bag (`streaming`)."""
    if streaming:
        found = [*wanted(stream.__name__, "stream_rows")]
    else:
        found = [*wanted(maintain.__name__, "apply_rows", "load_rows"), *wanted(hops.__name__, "union_rows")]
    ensure_compiled(found, "kernels for triangles")
