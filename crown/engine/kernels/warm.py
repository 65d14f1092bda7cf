"""Compiles together the kernels that views run in their first batches, if there is no library."""

from __future__ import annotations

from crown.compiling.warm import ensure_compiled, required_variants
from crown.engine.kernels import publish, update
from crown.engine.kernels.padding import batches as padding_batches
from crown.engine.kernels.payloads import summed_leaves
from crown.kernels import batches, strings

_SMALL = (
    (batches, ("net_tuples", "extent", "negatives", "write_record", "place_record")),
    (strings, ("encode", "decoded_size", "decode")),
)


def ensure_view_compiled(weighed: bool = False, padded: bool = False) -> None:
    """Compiles the kernels of views. ``weighed``, ``padded``: also those of plans with payloads, and with padded
    nodes."""
    found = [*required_variants(update.__name__, "insert_batch", "delete_batch", none=True)]
    for module, names in _SMALL:
        found += required_variants(module.__name__, *names)
    if weighed:
        found += required_variants(update.__name__, "insert_batch", "delete_batch", none=False)
        found += required_variants(summed_leaves.__name__, "sum_batch")
        found += required_variants(publish.__name__, "publish_batch")
    if padded:
        found += required_variants(padding_batches.__name__, "take_padding", "give_padding", none=not weighed)
    ensure_compiled(found)
