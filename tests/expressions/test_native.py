"""Native expressions have the values that Arrow's have: every construct, at the edges of its types, and at random."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crown
from crown.compiling.modes import PLAIN
from crown.expressions.program import native, needs_no_arrow
from crown.results.columns import Column, Frame, Projection
from crown.store.codec import NULL, decode, encode
from crown.store.dictionary import Dictionary
from plans import Expr, PlanError, parse
from plans.expressions.build import call, col, lit
from plans.nested import is_nested
from plans.plan import Output
from tests.marks import draws
from tests.plans.expressions import expression_cases as cases
from tests.plans.expressions import test_totality as totality
from tests.stages.harness import parts

NATIVE = ("add", "sub", "mul", "div", "mod", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge", "nseq", "and", "or")
NATIVE += ("not", "isnull", "in", "case", "coalesce", "cast", "year", "month", "day", "hour", "minute", "second")
NATIVE += ("unix_seconds", "unix_millis", "date_trunc")


def coded(array: pa.Array, type_: str, dictionary: Dictionary) -> np.ndarray:
    """Returns the codes of a column; a whole number that stands for NULL is NULL."""
    if type_ in ("int64", "timestamp", "timestamp_ntz", "duration"):
        words = np.frombuffer(array.buffers()[1], np.int64)[array.offset :][: len(array)].copy()
        words[~np.array(array.is_valid())] = NULL
        return words
    return encode(array, type_, dictionary.intern)


def compare(expr: Expr, given: Mapping[str, pa.Array], n: int, rng: random.Random) -> bool:
    """Compares the values of an expression in both forms. Returns False if it has no native form."""
    if expr.type == "null" or native((expr,)) is None:
        return False
    dictionary = parts(1, 1 << 16)[0].dictionary
    names = sorted(expr.columns)
    types = {node.value: node.type for node in expr.postorder() if node.op == "col"}
    codes = np.array([coded(given[name], types[name], dictionary) for name in names], np.int64).reshape(len(names), n)
    arrays = {name: decode(codes[i].copy(), types[name], dictionary.extern) for i, name in enumerate(names)}
    places = {name: (i, types[name]) for i, name in enumerate(names)}
    made = {}
    for name in names:  # columns of a stage may be arrays that were never coded
        if rng.random() < 0.3:
            made[name] = Column(types[name], dictionary, None, arrays[name])
    frame = Frame(made, n, dictionary, codes, places)
    found = frame.projected(Projection([Output("v", expr.type, expr)], types, places))["v"]
    wanted = expr.evaluate(arrays, n)
    assert repr(_plain(found.array)) == repr(_plain(wanted)), str(expr)
    assert found.codes.tolist() == encode(wanted, expr.type, dictionary.intern).tolist()
    if expr.type == "bool":
        assert frame.holds(expr).tolist() == [value is True for value in wanted.to_pylist()]
    return True


def _plain(array: pa.Array) -> list[object]:
    """Returns values; -0.0 is 0.0, as codes have it."""
    if pa.types.is_date(array.type):
        array = array.view(pa.int32())
    if pa.types.is_string(array.type):
        array = array.view(pa.binary())
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        array = array.view(pa.int64())
    return [value + 0.0 if isinstance(value, float) else value for value in array.to_pylist()]


@pytest.mark.parametrize("group", cases.GROUPS, ids=lambda group: group.construct[:20])
def test_constructs_at_the_edges_of_their_types(group: cases.Group) -> None:
    """Of every two values; as plain Python of every value with some, since indices do not depend on them."""
    rows = np.arange(0, cases.ROWS, 5 if PLAIN else 1)
    given = {name: column.take(rows) for name, column in cases.columns().items()}
    for one in group.cases:
        expr = cases.expression(one if isinstance(one, str) else one[0])
        compare(expr, given, len(rows), random.Random(1))


SIZES = ["int32", "int64", "decimal(1,0)", "decimal(8,7)", "decimal(9,2)", "decimal(10,0)", "decimal(17,9)"]
SIZES += ["decimal(18,18)", "decimal(19,4)", "decimal(34,30)", "decimal(38,0)", "decimal(38,10)"]


@pytest.mark.parametrize("left", SIZES)
@pytest.mark.parametrize("right", SIZES)
def test_every_two_numbers(left: str, right: str) -> None:
    rng = random.Random(f"{left} {right}")
    given = {"a": totality._column(left, rng, 40), "b": totality._column(right, rng, 40)}
    for op in ("add", "sub", "mul", "div", "mod", "eq", "lt", "le", "greatest", "least"):
        try:
            expr = call(op, col("a", left), col("b", right))
        except PlanError:  # a type that no decimal has
            continue
        compare(expr, given, 40, rng)


@pytest.mark.parametrize("type_", ["timestamp", "timestamp_ntz"])
def test_starts_of_windows_and_later_moments(type_: str) -> None:
    rng = random.Random(type_)
    given = {"a": totality._column(type_, rng, 200), "b": totality._column("int64", rng, 200)}
    for length in (1, 7, 2_000_000, 86_400_000_000, 2**62):
        assert compare(call("tumble_start", col("a", type_), lit(length, "int64")), given, 200, rng)
    assert compare(call("plus_micros", col("a", type_), col("b", "int64")), given, 200, rng)


def test_arithmetic_and_comparisons_of_numbers_have_native_forms() -> None:
    texts = ["big + big2", "num * num2", "dbl / dbl2", "dec * (1 - cent)", "wide * wide2", "wide / dec", "whole % dec"]
    texts += ["big < big2", "dec >= wide", "dbl = dbl2", "str = str2", "num IN (1, 2)", "dec / 3", "YEAR(day)"]
    texts += ["TIMESTAMP_MICROS(UNIX_MICROS(inst) - PMOD(UNIX_MICROS(inst), 2000000))", "ntz + INTERVAL 10 SECONDS"]
    texts += ["str = 'a'", "str IN ('a', '', 'no row has this')", "str <> 'a%b'"]
    texts += ["CASE WHEN flag THEN dec ELSE dec2 END", "COALESCE(wide, wide2)", "CAST(big AS DECIMAL(38,4))", "-cent"]
    texts += ["GREATEST(big, big2, 3)", "LEAST(wide, wide2)", "GREATEST(day, DATE '2024-01-05')"]
    for text in texts:
        assert native((cases.expression(text),)) is not None, text
    assert all(needs_no_arrow(cases.expression(text)) for text in texts)
    for text in ["str < str2", "CAST(dbl AS STRING)", "SQRT(dbl)", "COALESCE(str, str2, 'a')"]:
        assert native((cases.expression(text),)) is None, text


def test_what_depends_on_one_text_has_a_native_form() -> None:
    for text in [
        "str < 'a'",
        "str LIKE '%a%'",
        "LENGTH(str) + num",
        "UPPER(str) = 'A' OR big > 2",
        "LENGTH(str) IS NULL",
    ]:
        assert native((cases.expression(text),)) is not None, text
        assert not needs_no_arrow(cases.expression(text))
    for text in ["str LIKE str2", "CAST(str AS DECIMAL(38,2))", "LENGTH(CONCAT(str, str2)) > 1"]:
        assert native((cases.expression(text),)) is None, text


def test_a_function_of_a_user_is_called_for_the_rows_of_each_batch() -> None:
    crown.function("shouted", pc.utf8_upper, arguments=["string"], result="string")
    expr = parse("SELECT DISTINCT shouted(s) = 'A' AS v FROM r", {"r": {"s": "string"}}).outputs[0][1]
    assert native((expr,)) is None, "not once per text"


def test_a_chain_of_twice_the_length_takes_twice_the_steps() -> None:
    def steps(length: int) -> int:
        chain = cases.expression(" OR ".join(f"(num = {i} AND str = '{i}' AND str LIKE '%{i}')" for i in range(length)))
        counted: Counter[str] = Counter()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, argument: counted.update([event]))
        try:
            assert native((chain,)) is not None
        finally:
            sys.setprofile(before)
        return counted.total()

    assert steps(200) < 2.2 * steps(100)


@draws(350, 600)
@given(st.integers(0, 2**32), st.sampled_from([1, 9, 300]))
def test_random_expressions(seed: int, n: int) -> None:
    rng = random.Random(seed)
    names = {name: type_ for name, type_ in totality.NAMES.items() if type_ != "binary" and not is_nested(type_)}
    expr = None
    while expr is None or native((expr,)) is None:
        expr = _expression(rng, names, rng.choice([1, 2, 3]))
    compare(expr, {name: totality._column(type_, rng, n) for name, type_ in names.items()}, n, rng)


def _expression(rng: random.Random, names: Mapping[str, str], depth: int) -> Expr:
    if depth == 0:
        name = rng.choice(list(names))
        return rng.choice([col(name, names[name])] * 4 + [lit(rng.choice(totality.LITERALS)), lit(None, names[name])])
    while True:
        try:
            op = rng.choice(NATIVE)
            if op == "cast":
                return totality.cast(_expression(rng, names, depth - 1), rng.choice(totality.TYPES))
            count = {"case": 3, "in": 4, "coalesce": 2}.get(op, 1 if op in ("neg", "abs", "not", "isnull") else 2)
            if op in ("year", "month", "day"):
                return call(op, col(next(name for name, type_ in names.items() if type_ == "date"), "date"))
            return call(op, *(_expression(rng, names, depth - 1) for _ in range(count)))
        except PlanError:
            continue


def test_several_expressions_share_what_they_have_in_common() -> None:
    texts = ["dec * (1 - cent)", "dec * (1 - cent) * (1 + cent)"]
    both = native(tuple(map(cases.expression, texts)))
    alone = [native((cases.expression(text),)) for text in texts]
    assert both is not None
    assert len(both._instructions) < sum(len(one._instructions) for one in alone if one is not None)
