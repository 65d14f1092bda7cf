"""Expressions against DuckDB: random typed expressions, evaluated on columns with NULLs and extremes."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crown
from plans import Expr, PlanError, arrow_type, plan
from plans.expressions import evaluate
from plans.expressions.build import call, cast, col, lit, substitute
from plans.types import decimal_parts
from tests.marks import draws, every

NAN, INF = float("nan"), float("inf")
COLUMNS = {
    "i": pa.array([0, 1, -1, 7, None, 3, 2, 5], pa.int64()),
    "j": pa.array([2, 1, 0, None, None, -4, 2, 6], pa.int64()),
    "k": pa.array([1, 2, None, 4, 5, 6, -7, 0], pa.int32()),
    "x": pa.array([0.0, 1.5, NAN, None, INF, -2.0, 1.5, -INF], pa.float64()),
    "y": pa.array([1.5, 1.5, NAN, NAN, None, 2.0, 0.0, -INF], pa.float64()),
    "s": pa.array(["", "ab", None, "a%b", "ä", "Ab", "a\nb", "it's"], pa.string()),
    "t": pa.array(["a", "ab", "b", None, "ä", "", "a_b", "it's"], pa.string()),
    "p": pa.array([True, False, None, True, False, None, True, False], pa.bool_()),
    "q": pa.array([True, True, True, False, False, None, None, None], pa.bool_()),
    "d": pa.array([dt.date(2020, 2, 29), dt.date(1970, 1, 1), None, dt.date(1999, 12, 31)] * 2, pa.date32()),
    "n": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00")] * 2, pa.decimal128(6, 2)),
}
TYPES = {"i": "int64", "j": "int64", "k": "int32", "x": "float64", "y": "float64", "s": "string", "t": "string",
         "p": "bool", "q": "bool", "d": "date", "n": "decimal(6,2)"}  # fmt: skip


def _columns(*types: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from([col(name, type_) for name, type_ in TYPES.items() if type_ in types])


_integers = st.deferred(
    lambda: st.one_of(
        _columns("int64", "int32"),
        st.integers(-5, 5).map(lit),
        st.builds(lambda op, a, b: call(op, a, b), st.sampled_from(["add", "sub", "mul"]), _integers, _integers),
        st.builds(lambda a, b: call("mod", a, b), _integers, st.sampled_from([lit(2), lit(3), lit(-3)])),
        st.builds(lambda a: call("neg", a), _integers),
        st.builds(lambda a: call("abs", a), _integers),
        st.builds(lambda a: call("length", a), _strings),
        st.builds(lambda op, a: call(op, a), st.sampled_from(["year", "month", "day"]), _columns("date")),
        st.builds(lambda c, a, b: call("case", c, a, b), _booleans, _integers, _integers),
        st.builds(lambda a, b: call("coalesce", a, b), _integers, _integers),
    )
)
_floats = st.one_of(
    _columns("float64"),
    st.sampled_from([lit(1.5), lit(0.0), lit(-2.0)]),
    st.builds(lambda a: call("neg", a), _columns("float64")),
)
_decimals = st.one_of(
    _columns("decimal(6,2)"),
    st.just(lit(Decimal("1.5"))),
    st.builds(
        lambda op, a: call(op, a, lit(Decimal("2.25"))),
        st.sampled_from(["add", "sub", "mul"]),
        _columns("decimal(6,2)"),
    ),
)
_strings = st.deferred(
    lambda: st.one_of(
        _columns("string"),
        st.sampled_from(["", "a", "it's", "ä", "a\\b"]).map(lit),
        st.builds(lambda a, b: call("concat", a, b), _strings, _strings),
        st.builds(lambda a, n, m: call("substring", a, lit(n), lit(m)), _strings, st.integers(1, 3), st.integers(0, 3)),
        st.builds(lambda a: cast(a, "string"), _columns("int64", "bool", "date")),
    )
)
_booleans = st.deferred(
    lambda: st.one_of(
        _columns("bool"),
        *(
            st.builds(
                lambda op, a, b: call(op, a, b), st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "nseq"]), of, of
            )
            for of in (_integers, _floats, _decimals, _strings, _columns("date"))
        ),
        st.builds(lambda a, b: call("eq", a, b), _integers, _floats),
        st.builds(lambda op, a, b: call(op, a, b), st.sampled_from(["and", "or"]), _booleans, _booleans),
        st.builds(lambda a: call("not", a), _booleans),
        st.builds(lambda a: call("isnull", a), st.one_of(_integers, _floats, _strings, _booleans)),
        st.builds(
            lambda a, items: call("in", a, *items),
            _integers,
            st.lists(st.integers(-1, 3).map(lit), min_size=1, max_size=3),
        ),
        st.builds(lambda a: call("in", a, lit("ab"), Expr("literal", "null")), _strings),
        st.builds(
            lambda a, p: call("like", a, lit(p)),
            _strings,
            st.sampled_from(["", "%", "a%", "%b", "_", "a_b", "%'%", "A%"]),
        ),
        st.builds(lambda a: call("like", a, lit("a!%%"), value="!"), _strings),
    )
)
ANY = st.one_of(_booleans, _integers, _strings, _decimals, _floats)


def _same(one: object, two: object) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    return one == two


def _duck(expr: Expr) -> list[object]:
    return [row[0] for row in _connection().sql(f"SELECT {expr} FROM t").fetchall()]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.register("t", pa.table(COLUMNS))
    return connection


@draws(200, 300)
@given(ANY)
def test_values_are_those_of_duckdb(expr: Expr) -> None:
    ours = expr.evaluate(COLUMNS).to_pylist()
    theirs = _duck(expr)
    assert all(map(_same, ours, theirs)), f"{expr}\n{ours}\n{theirs}"


@given(ANY)
def test_an_expression_survives_json(expr: Expr) -> None:
    assert Expr.from_json(json.loads(json.dumps(expr.to_json()))) == expr


@given(ANY)
def test_the_type_of_the_array_is_that_of_the_expression(expr: Expr) -> None:
    from plans import arrow_type

    assert expr.evaluate(COLUMNS).type == arrow_type(expr.type)
    assert len(expr.evaluate({name: column.slice(0, 0) for name, column in COLUMNS.items()})) == 0


def test_overflow_and_division_by_zero_give_null() -> None:
    big = pa.array([2**63 - 1, -(2**63), 4], pa.int64())
    column = col("b", "int64")
    for expr, expected in (
        (call("add", column, lit(1)), [None, -(2**63) + 1, 5]),
        (call("sub", column, lit(1)), [2**63 - 2, None, 3]),
        (call("mul", column, lit(1)), [2**63 - 1, None, 4]),  # -2^63 is the engine's code for NULL
        (call("mul", column, lit(2)), [None, None, 8]),
        (call("neg", column), [-(2**63) + 1, None, -4]),
        (call("abs", column), [2**63 - 1, None, 4]),
        (call("div", column, lit(0)), [None, None, None]),
        (call("mod", column, lit(0)), [None, None, None]),
        (call("mod", column, lit(-1)), [0, 0, 0]),
    ):
        assert expr.evaluate({"b": big}).to_pylist() == expected


def test_large_integers_compare_with_doubles() -> None:
    big = pa.array([2**63 - 1, 2**53 + 1, 1], pa.int64())
    assert call("gt", col("b", "int64"), lit(1.5)).evaluate({"b": big}).to_pylist() == [True, True, False]


def test_narrowing_gives_null_and_timestamps_fall_to_their_day() -> None:
    big = pa.array([2**31, 2**31 - 1, -(2**31), -(2**31) - 1, None], pa.int64())
    assert cast(col("b", "int64"), "int32").evaluate({"b": big}).to_pylist() == [None, 2**31 - 1, -(2**31), None, None]
    moments = pa.array([dt.datetime(2020, 2, 29, 23, 59), dt.datetime(1969, 12, 31, 1), None], pa.timestamp("us"))
    days = cast(col("m", "timestamp_ntz"), "date").evaluate({"m": moments}).to_pylist()
    assert days == [dt.date(2020, 2, 29), dt.date(1969, 12, 31), None]
    cents = cast(col("b", "int64"), "decimal(11,2)").evaluate({"b": pa.array([10**9, 10**9 - 1, -5], pa.int64())})
    assert cents.to_pylist() == [None, Decimal("999999999.00"), Decimal("-5.00")]


def test_an_untyped_null_takes_the_type_that_is_wanted() -> None:
    null = Expr("literal", "null")
    calls = [("add", null, lit(Decimal("1.5"))), ("mul", lit(1), null), ("neg", null), ("abs", null), ("upper", null)]
    calls += [("concat", lit("a"), null), ("year", null), ("div", null, null), ("eq", null, null), ("and", null, null)]
    calls += [("like", null, lit("a")), ("in", null, lit(1))]
    for op, *args in calls:
        assert call(op, *args).evaluate({}, 2).to_pylist() == [None, None], op


def test_a_literal_needs_a_length_when_there_is_no_column() -> None:
    assert lit(3).evaluate({}, 2).to_pylist() == [3, 3]
    with pytest.raises(ValueError, match="length"):
        lit(3).evaluate({})


@every(
    [
        lambda: call("add", lit(1), lit("a")),
        lambda: call("eq", lit(1), lit(True)),
        lambda: call("and", lit(1), lit(True)),
        lambda: call("like", lit(1), lit("a")),
        lambda: cast(col("x", "float64"), "date"),
        lambda: cast(col("x", "binary"), "int64"),
        lambda: call("upper", lit(b"a")),
        lambda: call("left", lit("abc"), lit(1.5)),
        lambda: call("round", lit(True)),
        lambda: call("repeat", lit("a"), lit(10_001)),
        lambda: call("lpad", lit("a")),
        lambda: call("date_trunc", lit("fortnight"), col("t", "timestamp")),
        lambda: call("round", lit(1.5), col("n", "int32")),
        lambda: call("case", lit(True), lit(1), lit("a")),
        lambda: lit(Decimal("1" * 39)),
        lambda: lit(Decimal("nan")),
        lambda: lit(-(2**63)),
        lambda: lit("half of a pair: \ud800"),
        lambda: call("eq", lit("x"), lit(1)),
        lambda: call("like", lit("a"), lit("%" * 10_001)),
        lambda: lit(object()),
    ]
)
def test_operands_that_do_not_fit_are_refused(build: object) -> None:
    with pytest.raises(PlanError):
        build()  # type: ignore[operator]


def test_arithmetic_keeps_its_type_when_its_columns_become_wider() -> None:
    sums = substitute(call("add", col("i", "int32"), lit(1)), lambda _: col("j", "int64"))
    assert sums.type == "int32"
    assert sums.evaluate({"j": pa.array([2**31 - 1, 5], pa.int64())}).to_pylist() == [None, 6]
    product = call("mul", col("d", "decimal(38,10)"), col("i", "int64"))
    fixed = substitute(product, lambda name: lit(3, "int64") if name == "i" else col("d", "decimal(38,10)"))
    assert fixed.type == product.type == "decimal(38,6)"


def test_strings_that_are_not_utf8_have_no_characters_but_are_values() -> None:
    bounds, data = (
        pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1, 3, 4, 6))),
        pa.py_buffer(b"a\xff\xfeb\xc3\x9f"),
    )
    text = pa.Array.from_buffers(pa.string(), 4, [None, bounds, data])
    column = col("s", "string")
    for expr, expected in (
        (call("upper", column), ["A", None, "B", "SS"]),
        (call("lower", column), ["a", None, "b", "ß"]),
        (call("length", column), [1, None, 1, 1]),
        (call("substring", column, lit(1), lit(1)), ["a", None, "b", "ß"]),
        (call("like", column, lit("%")), [True, None, True, True]),
        (call("eq", column, column), [True, True, True, True]),
    ):
        assert expr.evaluate({"s": text}).to_pylist() == expected, str(expr)
    halves = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1, 2))), pa.py_buffer(b"\xc3\x9f")],
    )
    assert call("length", column).evaluate({"s": halves}).to_pylist() == [None, None]


def test_a_view_goes_on_after_an_overflow() -> None:
    view = crown.view("SELECT DISTINCT a + b AS s, a * 2 AS t FROM R", {"R": {"a": "int64", "b": "int64"}})
    rows = [{"a": 2**63 - 1, "b": 1}, {"a": -(2**62), "b": -(2**62)}, {"a": 1, "b": 2}]
    assert view.apply({"R": rows}).num_rows == 2  # the first two sums are NULL alike
    assert view.apply({"R": [{**row, "_weight": -1} for row in rows]})["_weight"].to_pylist() == [-1, -1]
    assert view.count() == 0


def test_a_cast_that_can_lose_a_value_does_not_tell_rows_apart() -> None:
    tables = {"R": {"columns": {"a": "int64"}, "distinct": True}}
    with pytest.raises(PlanError, match="more than once"):
        plan("SELECT CAST(a AS INT) AS n FROM R", tables)
    assert plan("SELECT CAST(a AS DECIMAL(20,0)) AS n FROM R", tables).output[0].type == "decimal(20,0)"


def test_decimals_are_exact_at_the_edges_of_256_bits() -> None:
    rng = random.Random(7)
    shapes = [
        ("decimal(38,10)", "decimal(38,10)"),
        ("decimal(38,0)", "decimal(38,38)"),
        ("decimal(38,38)", "decimal(38,38)"),
    ]
    shapes += [
        ("decimal(20,3)", "decimal(30,25)"),
        ("decimal(1,1)", "decimal(37,0)"),
        ("decimal(38,37)", "decimal(5,0)"),
        ("decimal(38,17)", "decimal(10,0)"),
    ]
    for left, right in shapes:
        pairs = [[_decimal(type_, rng) for type_ in (left, right)] for _ in range(300)]
        columns = {
            name: pa.array([p[i] for p in pairs], arrow_type(t))
            for i, (name, t) in enumerate((("l", left), ("r", right)))
        }
        for op in ("add", "sub", "mul", "div", "mod"):
            try:
                expr = call(op, col("l", left), col("r", right))
            except PlanError:
                continue
            found = expr.evaluate(columns).to_pylist()
            assert found == [_by_fractions(op, a, b, expr.type) for a, b in pairs], (op, left, right)


def test_quotients_of_as_many_bits_as_words_have_are_exact() -> None:
    wholes = [2**63 - 1, 2**63, 2**64 - 1, 2**62, 184467440737095516, 10**19 - 1]
    pairs = [(Decimal(whole * by), Decimal(by)) for whole in wholes for by in (1, 2, 7, 100)]
    for scale in range(18):
        types = (f"decimal(38,{scale})", f"decimal({20 + scale // 3},{scale})")
        kept = [pair for pair in pairs if pair[0] < 10 ** (38 - scale)]
        columns = {n: pa.array([p[i] for p in kept], arrow_type(types[i])) for i, n in enumerate("lr")}
        for op in ("div", "mod"):
            expr = call(op, col("l", types[0]), col("r", types[1]))
            found = expr.evaluate(columns).to_pylist()
            assert found == [_by_fractions(op, a, b, expr.type) for a, b in kept], (op, scale)


def _decimal(type_: str, rng: random.Random) -> Decimal:
    precision, scale = decimal_parts(type_)  # type: ignore[misc]
    limit = 10 ** rng.choice([precision, rng.randint(1, precision)]) - 1
    even = 10 ** rng.randint(0, precision - 1)  # numbers that end in zeros divide with few digits left
    number = rng.choice([limit, -limit, rng.randint(-limit, limit), rng.randint(-limit, limit) // even * even, 0, even])
    return Decimal(number).scaleb(-scale, Context(prec=80))


def _by_fractions(op: str, left: Decimal, right: Decimal, type_: str) -> Decimal | None:
    precision, scale = decimal_parts(type_)  # type: ignore[misc]
    a, b = Fraction(left), Fraction(right)
    if op in ("div", "mod") and not b:
        return None
    exact = {"add": a + b, "sub": a - b, "mul": a * b}.get(op)
    if exact is None:
        exact = a / b if op == "div" else a - b * int(a / b)
    size = int(abs(exact) * 10**scale + Fraction(1, 2))
    if size >= 10**precision:
        return None
    return Decimal(size if exact >= 0 else -size).scaleb(-scale, Context(prec=80))


def test_columns_that_a_join_casts_are_compared_as_the_query_casts_them() -> None:
    tables = {"A": {"k": "int64", "at": "timestamp"}, "B": {"m": "int64", "at": "timestamp"}}
    query = "SELECT DISTINCT A.k, B.m FROM A JOIN B ON CAST(A.at AS DATE) = CAST(B.at AS DATE)"
    view = crown.view(query, tables)
    day = [dt.datetime(2020, 2, 29, hour, tzinfo=dt.UTC) for hour in (0, 23)]
    found = view.apply({"A": [{"k": 1, "at": day[0]}], "B": [{"m": 2, "at": day[1]}]})
    assert found.select(["k", "m"]).to_pylist() == [{"k": 1, "m": 2}]


def test_texts_in_another_case_or_with_spaces_join_as_the_query_makes_them() -> None:
    tables = {"A": {"k": "int64", "s": "string"}, "B": {"m": "int64", "s": "string"}}
    view = crown.view("SELECT DISTINCT k, m FROM A JOIN B ON UPPER(TRIM(A.s)) = B.s", tables)
    found = view.apply({"A": [{"k": 1, "s": " ab "}, {"k": 2, "s": "b"}], "B": [{"m": 3, "s": "AB"}]})
    assert found.select(["k", "m"]).to_pylist() == [{"k": 1, "m": 3}]


def test_expressions_that_are_evaluated_together_share_what_they_have_in_common(monkeypatch) -> None:
    made: list[str] = []
    apply = evaluate._applied
    monkeypatch.setattr(evaluate, "_applied", lambda node, args: made.append(node.op) or apply(node, args))
    i, j = col("i", "int64"), col("j", "int64")
    expressions = [call("add", call("mul", i, j), lit(1)), call("mul", i, j), call("sub", call("mul", i, j), lit(1)), i]
    found = evaluate.Evaluator(expressions).evaluate(COLUMNS, 8)
    assert sorted(made) == ["add", "mul", "sub"]
    assert found == [expr.evaluate(COLUMNS) for expr in expressions]
    assert evaluate.Evaluator([]).evaluate({}, 3) == []


def test_values_that_are_equal_but_not_the_same_are_not_shared() -> None:
    zeros = evaluate.Evaluator([lit(0.0), lit(-0.0), lit(1), lit(True)]).evaluate({}, 1)
    assert [math.copysign(1, value[0].as_py()) for value in zeros[:2]] == [1, -1]
    assert [value[0].as_py() for value in zeros[2:]] == [1, True]
    assert [value.type for value in zeros[2:]] == [pa.int32(), pa.bool_()]


@settings(max_examples=60)
@given(st.lists(st.one_of(_integers, _floats, _booleans, _strings), min_size=1, max_size=6))
def test_together_they_have_the_values_that_each_has_alone(expressions: list[Expr]) -> None:
    together = evaluate.Evaluator(expressions).evaluate(COLUMNS, 8)
    for found, expr in zip(together, expressions, strict=True):
        alone = expr.evaluate(COLUMNS, 8)
        assert (found.type, repr(found.to_pylist())) == (alone.type, repr(alone.to_pylist()))
