"""The sink of a baseline's deltas: a reused column-major buffer, which is dropped when full, or first summed up."""

from __future__ import annotations

from bench.cases.checksum import PRIME
from crown.kernels.jit import device

# Cells of the sink array: rows in the buffer, rows in total, net count, net checksum, whether to sum up, rows touched.
S_FILL, S_EMITTED, S_COUNT, S_SUM, S_CHECK, S_TOUCHED = 0, 1, 2, 3, 4, 5
S_WIDTH, S_CAPACITY = 6, 7  # columns and capacity of the buffer
SINK = 8


@device
def block_checksum(block, width, capacity, n, factors):
    """Returns the sum of the checksums of the first ``n`` rows of ``block`` (int64[width, capacity]), see
    ``bench.cases.checksum``. O(n * width).
    """
    total = 0
    for i in range(n):
        h = 0
        for c in range(width):
            h += (block[c * capacity + i] % PRIME) * factors[c]
        h %= PRIME
        total += (h * h) % PRIME
    return total


@device
def flush(out, sink, factors, sign):
    """Empties the buffer, all of whose rows have weight ``sign``."""
    n = sink[S_FILL]
    sink[S_EMITTED] += n
    sink[S_COUNT] += sign * n
    if sink[S_CHECK] == 1:
        sink[S_SUM] += sign * block_checksum(out, sink[S_WIDTH], sink[S_CAPACITY], n, factors)
    sink[S_FILL] = 0


@device
def emit(plan, at, columns, values, out, sink, factors, sign):
    """Writes the output columns (attribute numbers ``plan[at ...]``) of the tuple in ``values``."""
    j = sink[S_FILL]
    capacity = sink[S_CAPACITY]
    for c in range(columns):
        out[c * capacity + j] = values[plan[at + c]]
    j += 1
    sink[S_FILL] = j
    if j == capacity:
        flush(out, sink, factors, sign)
