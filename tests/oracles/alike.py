"""Rows that are equal but for the digits of their numbers."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

from tests.oracles.database import Row


def alike(found: Counter[Row], expected: Counter[Row]) -> bool:
    """Returns whether rows are equal, numbers nearly: a quotient of decimals has Spark's digits, which DuckDB lacks."""
    ours, theirs = (sorted(bag.elements(), key=_order) for bag in (found, expected))
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(_near, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def _order(row: Row) -> tuple[Any, ...]:
    numbers = (float(value) for value in row if isinstance(value, (int, float, Decimal)))
    others = ("0" if isinstance(value, (int, float, Decimal)) else str(value) for value in row)
    return tuple(others), tuple(numbers)


def _near(a: object, b: object) -> bool:
    if isinstance(a, (int, float, Decimal)) and isinstance(b, (int, float, Decimal)):
        return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=2e-6)
    return a == b
