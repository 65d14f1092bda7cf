"""Monomials: how many, which, where, and the SQL that computes them."""

from __future__ import annotations

from math import comb
from random import Random

import duckdb
import pytest

from crown.errors import CrownError
from crown.ml import monomials


@pytest.mark.parametrize("m", [1, 2, 3, 10, 27])
def test_there_are_one_plus_m_plus_half_of_m_times_m_plus_1(m: int) -> None:
    names = [f"x{i}" for i in range(m)]
    assert len(monomials(over=names)) == 1 + m + m * (m + 1) // 2
    assert len(monomials(1, over=names)) == 1 + m
    assert len(monomials(3, over=names)) == comb(m + 3, 3)


def test_the_products_of_two_columns() -> None:
    made = monomials(over=["a", "b"])
    assert list(made) == [(), ("a",), ("b",), ("a", "a"), ("a", "b"), ("b", "b")]
    assert made.names() == ("n", "sum_a", "sum_b", "sum_a_a", "sum_a_b", "sum_b_b")
    assert made.sql()[0] == "COUNT(*) AS n"
    assert made.sql()[4] == "SUM(a * b) AS sum_a_b"


def test_a_product_is_found_in_any_order_of_its_factors() -> None:
    made = monomials(3, over=["b", "a"])
    assert made.index("a", "b") == made.index("b", "a") == made.products.index(("b", "a"))
    assert made.index() == 0
    for unknown in (("a", "c"), ("a",) * 4):
        with pytest.raises(CrownError):
            made.index(*unknown)


def test_the_sql_computes_what_the_rows_add_up_to() -> None:
    chance, names = Random(1), ["a", "a_b", "B", "two words", "tick`s"]
    made = monomials(over=names)
    rows = [{name: chance.randint(-9, 9) for name in names} for _ in range(50)]
    expected = tuple(sum(parts) for parts in zip(*map(made.of, rows), strict=True))
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}" BIGINT' for name in names)
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [list(row.values()) for row in rows])
        items = ", ".join(item.replace("``", "\0").replace("`", '"').replace("\0", "`") for item in made.sql())
        found = connection.execute(f"SELECT {items} FROM t")
        assert [column[0] for column in found.description] == list(made.names())
        assert found.fetchone() == expected


def test_names_of_sums_are_never_the_same() -> None:
    made = monomials(over=["a", "b", "a_b", "A b"])
    assert len(set(made.names())) == len(made)


@pytest.mark.parametrize(
    ("degree", "over", "sentence"),
    [
        (0, ["a"], "degree must be a whole number from 1 to 64, not 0"),
        (2.5, ["a"], "degree must be a whole number"),
        (60, [f"c{i}" for i in range(60)], "there are more than 1,000,000 products of degree 60 over 60 columns"),
        (2, [], "over names no column"),
        (2, "ab", "over must be a list of names of columns, not 'ab'"),
        (2, ["a", 1], "over must be a list of names"),
        (2, ["a", "b", "a"], "over names a twice; name every column once"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(degree: int, over: list[str], sentence: str) -> None:
    with pytest.raises(CrownError, match=sentence):
        monomials(degree, over=over)
