"""Decimals that no decimal of 38 digits holds together are compared as the numbers they are."""

from __future__ import annotations

import operator
from decimal import Context, Decimal
from random import Random

import pyarrow as pa
import pytest

from plans import PlanError
from plans.expressions.build import call, col, lit
from plans.types import arrow_type

TYPES = ("decimal(38,0)", "decimal(38,38)", "decimal(36,2)", "decimal(38,6)", "int64")
OPERATORS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "ne": operator.ne}
EXACT = Context(prec=100)


def value(random: Random, type_: str) -> Decimal | int | None:
    if random.random() < 0.1:
        return None
    if type_ == "int64":
        return random.choice([0, 1, -1, 10**18, random.randrange(-5, 5)])
    precision, scale = (int(part) for part in type_[8:-1].split(","))
    digits = random.choice([0, 1, 10**scale, 10**precision - 1, random.randrange(10**precision)])
    if digits >= 10**precision:
        digits = 1
    return EXACT.scaleb(Decimal(random.choice([1, -1]) * digits), -scale)


@pytest.mark.parametrize("op", sorted(OPERATORS))
@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("right", TYPES)
def test_a_comparison_is_that_of_the_numbers(left: str, right: str, op: str) -> None:
    random = Random(f"{left} {right} {op}")
    columns = {
        "a": pa.array([value(random, left) for _ in range(60)], arrow_type(left)),
        "b": pa.array([value(random, right) for _ in range(60)], arrow_type(right)),
    }
    found = call(op, col("a", left), col("b", right)).evaluate(columns, 60).to_pylist()
    pairs = zip(columns["a"].to_pylist(), columns["b"].to_pylist(), strict=True)
    wanted = [None if a is None or b is None else OPERATORS[op](a, b) for a, b in pairs]
    assert found == wanted


def test_values_may_be_equal_and_constants_compared() -> None:
    sum_ = call("add", col("a", "decimal(38,0)"), lit(0))
    columns = {"a": pa.array([Decimal(1), Decimal(0), None], arrow_type("decimal(38,0)"))}
    small = lit(Decimal("0." + "0" * 36 + "1"))
    assert call("lt", col("a", "decimal(38,0)"), small).evaluate(columns, 3).to_pylist() == [False, True, None]
    assert call("nseq", sum_, small).evaluate(columns, 3).to_pylist() == [False, False, False]


def test_an_equality_of_columns_needs_one_type() -> None:
    with pytest.raises(PlanError, match="together need 76 digits"):
        call("eq", col("r.a", "decimal(38,0)"), col("t.b", "decimal(38,38)"))


def test_one_of_two_decimals_keeps_its_digits_before_the_point() -> None:
    either = call("coalesce", col("a", "decimal(37,20)"), col("b", "decimal(38,11)"))
    assert either.type == "decimal(38,11)"
    long, wide = Decimal("9" * 17 + "." + "5" * 20), Decimal("9" * 27 + "." + "1" * 11)
    columns = {"a": pa.array([long, None], pa.decimal128(37, 20)), "b": pa.array([None, wide], pa.decimal128(38, 11))}
    assert either.evaluate(columns, 2).to_pylist() == [Decimal("9" * 17 + "." + "5" * 10 + "6"), wide]
