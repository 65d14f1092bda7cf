"""Generates seeded power-law graphs, so that demos, tests and benchmarks need no data files.

Both generators return the edges as two int64 arrays ``(src, dst)`` in arrival order. The same arguments produce the
same edges on every machine (NumPy's PCG64 is specified bit by bit).
"""

from __future__ import annotations

import numpy as np


def chung_lu(vertices: int, edges: int, *, exponent: float = 2.1, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Returns a directed Chung–Lu graph: both ends of an edge are drawn in proportion to a power-law weight.

    Vertex ``v`` has weight ``(v + 1) ** (−1 / (exponent − 1))``, so in- and out-degrees follow a power law with that
    exponent (2.1 resembles who-trusts-whom networks) and low numbers are hubs in one direction; the other direction
    uses a seeded permutation of the weights, so the biggest source is not the biggest target. Self-loops are dropped
    and duplicates removed (first arrival stays), hence exactly ``edges`` distinct edges, or fewer when the graph is so
    dense that 50 rounds of drawing do not find them. Cost O(edges · log vertices) per round, usually two rounds.

    Source: F. Chung, L. Lu, "Connected components in random graphs with given expected degree sequences", 2002.
    """
    rng = np.random.default_rng(seed)
    weight = np.arange(1, vertices + 1, dtype=np.float64) ** (-1.0 / (exponent - 1.0))
    cumulative = np.cumsum(weight / weight.sum())
    shuffled = rng.permutation(vertices)
    codes = np.empty(0, dtype=np.int64)
    for _ in range(50):
        missing = edges - len(codes)
        if missing <= 0:
            break
        draw = int(missing * 1.2) + 16
        src = np.searchsorted(cumulative, rng.random(draw)).clip(max=vertices - 1)
        dst = shuffled[np.searchsorted(cumulative, rng.random(draw)).clip(max=vertices - 1)]
        fresh = (src * vertices + dst)[src != dst]
        codes = _first_arrivals(np.concatenate([codes, fresh]))
    codes = codes[:edges]
    return codes // vertices, codes % vertices


def rmat(
    scale: int, edges: int, *, a: float = 0.57, b: float = 0.19, c: float = 0.19, seed: int = 7
) -> tuple[np.ndarray, np.ndarray]:
    """Returns a directed R-MAT graph over ``2 ** scale`` vertices, each edge dropped down a recursive 2 × 2 matrix.

    ``a``, ``b``, ``c`` (and ``1 − a − b − c``) are the quadrant probabilities; the defaults are Graph500's. Edges are
    independent draws in arrival order: duplicates and self-loops stay, as in a raw stream. Cost O(edges · scale).

    Source: D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: a recursive model for graph mining", 2004.
    """
    rng = np.random.default_rng(seed)
    src = np.zeros(edges, dtype=np.int64)
    dst = np.zeros(edges, dtype=np.int64)
    for _ in range(scale):
        quadrant = rng.random(edges)
        lower = quadrant >= a + b
        right = ((quadrant >= a) & ~lower) | (quadrant >= a + b + c)
        src = (src << 1) | lower
        dst = (dst << 1) | right
    return src, dst


def _first_arrivals(codes: np.ndarray) -> np.ndarray:
    """Returns ``codes`` without repetitions, in order of first arrival."""
    _, first = np.unique(codes, return_index=True)
    return codes[np.sort(first)]
