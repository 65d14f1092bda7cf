"""Python values that fit a column by their type become the array that Arrow makes of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crown.ingest.tables.arrays import REFUSED, natural

TYPES = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(), "string": pa.string()}
VALUES: list[tuple[str, list[Any]]] = [
    ("int32", [1, None, -(2**31), 2**31 - 1, 0]),
    ("int64", [None, 2**63 - 1, -(2**63)]),
    ("int64", []),
    ("int64", [None]),
    ("float64", [1.5, None, float("inf"), -0.0]),
    ("string", ["", None, "\N{LATIN SMALL LETTER E WITH ACUTE}", "a\0b", "x" * 300]),
    ("string", []),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=str)
def test_the_array_is_that_of_arrow(kind: str, values: list[Any]) -> None:
    found = natural(values, TYPES[kind])
    found.validate(full=True)
    assert found.equals(pa.array(values, TYPES[kind]))
    assert found.null_count == values.count(None)


@pytest.mark.parametrize(("kind", "value"), [("int32", 2**31), ("int64", -(2**63) - 1), ("string", "\ud800")])
def test_what_does_not_fit_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(REFUSED):
        natural([value], TYPES[kind])
