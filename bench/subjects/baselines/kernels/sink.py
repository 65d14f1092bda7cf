"""Where the deltas of a baseline go: a reused column-major buffer that is dropped when full, or summed up first."""

from __future__ import annotations

from crown.kernels.jit import device

PRIME = 2147483629  # below 2^31, so that every product below fits 63 bits
FACTORS = (1, 65599, 131071, 24036583, 6972593, 859433, 1257787, 3021377, 43112609, 16785407)

# Cells of the sink array: rows in the buffer, rows ever, net count, net checksum, whether to sum up, rows touched.
S_FILL, S_EMITTED, S_COUNT, S_SUM, S_CHECK, S_TOUCHED = 0, 1, 2, 3, 4, 5
S_WIDTH, S_CAPACITY = 6, 7  # columns of the buffer, rows it holds
SINK = 8


@device
def block_checksum(block, width, capacity, n, factors):
    """Sum over the first ``n`` columns of ``block`` (int64[width, capacity]) of the checksum of that row; see
    ``bench.harness.checksum``. O(n * width).
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
    """Empty the buffer, all of whose rows have weight ``sign``."""
    n = sink[S_FILL]
    sink[S_EMITTED] += n
    sink[S_COUNT] += sign * n
    if sink[S_CHECK] == 1:
        sink[S_SUM] += sign * block_checksum(out, sink[S_WIDTH], sink[S_CAPACITY], n, factors)
    sink[S_FILL] = 0


@device
def emit(P, at, columns, V, out, sink, factors, sign):
    """Write the output columns (attribute numbers ``P[at ...]``) of the tuple in ``V``."""
    j = sink[S_FILL]
    capacity = sink[S_CAPACITY]
    for c in range(columns):
        out[c * capacity + j] = V[P[at + c]]
    j += 1
    sink[S_FILL] = j
    if j == capacity:
        flush(out, sink, factors, sign)
