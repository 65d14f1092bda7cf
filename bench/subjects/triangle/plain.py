"""The triangle count in plain Python: first-order maintenance in dictionaries, which walks the shorter list per
update.
"""

from __future__ import annotations

from collections import defaultdict


class PlainCount:
    """The count of R(a, b), S(b, c), T(c, a), in three relations, or in one that plays all three roles (``copies``
    1).
    """

    def __init__(self, copies: int) -> None:
        self._copies = copies
        self._out: list[dict[int, dict[int, int]]] = [defaultdict(dict) for _ in range(copies)]
        self._into: list[dict[int, dict[int, int]]] = [defaultdict(dict) for _ in range(copies)]
        self._count = 0

    def count(self) -> int:
        """Returns the current number of triangles."""
        return self._count

    def replay(self, rows: list[list[int]]) -> None:
        """Applies updates (relation, x, y, m) one by one. Each walks the shorter of two lists."""
        copies, out, into, count = self._copies, self._out, self._into, self._count
        for k, x, y, m in rows:
            ys, xs = out[(k + 1) % copies].get(y), into[(k + 2) % copies].get(x)
            if ys and xs:
                if len(ys) > len(xs):
                    ys, xs = xs, ys
                found = 0
                for z, weight in ys.items():
                    other = xs.get(z)
                    if other:
                        found += weight * other
                count += found * m * (3 if copies == 1 else 1)
            total = out[k][x].get(y, 0) + m
            if copies == 1 and x == y:
                count += 3 * m * m * (total - m) + m**3
            if total:
                out[k][x][y] = into[k][y][x] = total
            else:
                del out[k][x][y], into[k][y][x]
        self._count = count
