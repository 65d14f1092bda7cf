"""Evaluation never fails: random expressions of all operators, over columns of all that their types can hold."""

from __future__ import annotations

import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plans import Expr, PlanError, arrow_type
from plans.expressions.build import ARITHMETIC, COMPARISONS, FUNCTIONS, NULL, call, cast, col, lit
from plans.expressions.columns.intervals import restored
from plans.expressions.functions.function import HigherOrder, constant
from plans.expressions.lambdas import Lambda, with_lambdas
from plans.expressions.literals import RESERVED
from plans.nested import is_nested, parts
from tests.marks import draws
from tests.plans.expressions import expression_cases as cases

TYPES = ["bool", "int32", "int64", "float64", "string", "binary", "date", "timestamp", "timestamp_ntz"]
TYPES += ["decimal(1,0)", "decimal(10,2)", "decimal(18,18)", "decimal(19,4)", "decimal(34,30)", "decimal(38,0)"]
TYPES += ["decimal(38,10)", "decimal(38,38)"]
TYPES += ["duration", "months"]
TYPES += ["array<int64>", "array<string>", "array<float64>", "array<array<string>>", "map<string,int64>"]
TYPES += ["struct<a:int64,b:array<string>>", "array<struct<k:string,n:int64>>"]
NAMES = {f"c{number}": type_ for number, type_ in enumerate(TYPES)}
TEXTS = [
    b"",
    b"a",
    b"A%_b",
    "straße".encode(),
    "ΑΣ'".encode(),
    "😀".encode(),
    b"\xff",
    b"\xc3",
    b"\xe1\xbc",
    b"ok\x80",
    b"\x00",
]
LITERALS = [
    0,
    1,
    -1,
    7,
    2**31 - 1,
    -(2**31),
    2**63 - 1,
    -(2**63) + 1,
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    1e308,
    5e-324,
]
LITERALS += ["", "a", "ß", "2020-02-29", "1.5", True, False]
OPERATORS = sorted(
    {*COMPARISONS, *ARITHMETIC, *FUNCTIONS, "neg", "abs", "and", "or", "not", "isnull", "in", "like", "case", "cast"}
)


SEEDS = st.integers(0, 2**32)


def _column(type_: str, rng: random.Random, length: int) -> pa.Array:
    """Values of the type's whole range, extremes often; under a NULL lies whatever was there; not from the start."""
    n, kind = length + 3, arrow_type(type_)
    if is_nested(type_):
        return _nested(type_, rng, n)[3:]
    if type_ == "months":
        return restored(_column("int32", rng, length), "months")
    valid = pa.py_buffer(np.packbits([rng.random() < 0.8 for _ in range(n)], bitorder="little"))
    if type_ in ("string", "binary"):
        texts = [rng.choice(TEXTS) for _ in range(n)]
        bounds = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        buffers = [valid, pa.py_buffer(bounds), pa.py_buffer(b"".join(texts))]
    elif type_ == "bool":
        buffers = [valid, pa.py_buffer(rng.randbytes(n // 8 + 1))]
    else:
        width = kind.bit_width
        limit = 10**kind.precision - 1 if pa.types.is_decimal(kind) else 2 ** (width - 1) - 1
        least = -limit - (0 if pa.types.is_decimal(kind) else 1)
        pool = [0, 1, -1, limit, least, limit // 2, rng.randint(least, limit), rng.randint(-1000, 1000) % (limit + 1)]
        values = [rng.choice(pool) for _ in range(n)]
        data = b"".join(value.to_bytes(width // 8, "little", signed=True) for value in values)
        if type_ == "float64":
            special = [0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, rng.uniform(-9, 9)]
            data = np.array([rng.choice(special) for _ in range(n)]).tobytes()
        buffers = [valid, pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, n, buffers)[3:]


def _nested(type_: str, rng: random.Random, n: int) -> pa.Array:
    """Values of a type with parts; under a NULL lies whatever was there."""
    made = parts(type_)
    there = pa.py_buffer(np.packbits([rng.random() < 0.8 for _ in range(n)], bitorder="little"))
    if made.kind == "struct":
        return pa.Array.from_buffers(
            arrow_type(type_), n, [there], children=[_column(part, rng, n) for part in made.types]
        )
    ends = np.cumsum([0, *(rng.randint(0, 3) for _ in range(n))], dtype=np.int32)
    if made.kind == "array":
        elements = _column(made.types[0], rng, int(ends[-1]))
    else:  # the keys of each map differ, and are in their order
        keys = pa.array([f"k{i}" for size in np.diff(ends) for i in range(size)], pa.string())
        fields = [arrow_type(type_).key_field, arrow_type(type_).item_field]
        elements = pa.StructArray.from_arrays([keys, _column(made.types[1], rng, int(ends[-1]))], fields=fields)
    return pa.Array.from_buffers(arrow_type(type_), n, [there, pa.py_buffer(ends)], children=[elements])


def _columns(expr: Expr, rng: random.Random, length: int) -> dict[str, pa.Array]:
    return {name: _column(type_, rng, length) for name, type_ in NAMES.items() if name in expr.columns}


def _expression(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        leaves = [col(*rng.choice(list(NAMES.items()))), lit(rng.choice(LITERALS)), NULL]
        return rng.choices(leaves, [8, 3, 1])[0]
    for _ in range(20):
        try:
            return _applied(rng.choice(OPERATORS), rng, depth - 1)
        except PlanError:
            continue
    return _expression(rng, depth - 1)


OPERANDS = {"and": "bool", "or": "bool", "not": "bool"}
TEXTS_OF: dict[str, list[Any]] = {
    "regexp_like": ["a", "(.)", ".*$", "^$", "(a|ß)+"],
    "date_trunc": ["year", "week", "Hour"],
    "trunc": ["year", "mm"],
    "get_json_object": ["$", "$.a[0]"],
    "get_field": ["a", "B"],
    "from_json": ["MAP<STRING, INT>", "a INT, b ARRAY<STRING>", "a DATE, b TIMESTAMP"],
    "split": ["a", "[a-z]+"],
    "sort_array": [True, False],
    "ordered_list": [True, False],
    "timestampdiff": ["day", "MONTH", "microsecond"],
    "date_format": ["yyyy-MM-dd", "G y yy EEE HH:mm:ss.SSSSSS a h K k Q"],
    "read_timestamp": ["yyyy", "y", "yyyy-MM-dd"],
    "encode": ["UTF-8", "US-ASCII", "UTF-16", "UTF-32"],
    "from_utc_timestamp": ["UTC", "Europe/Paris", "-08:00"],
}
TEXTS_OF["from_unixtime"], TEXTS_OF["read_seconds"] = TEXTS_OF["date_format"], TEXTS_OF["read_timestamp"]
TEXTS_OF["decode"], TEXTS_OF["to_utc_timestamp"] = TEXTS_OF["encode"], TEXTS_OF["from_utc_timestamp"]
TEXTS_OF["regexp_extract"] = TEXTS_OF["regexp_replace"] = TEXTS_OF["regexp_like"]
KINDS = {
    "number": ["int32", "int64", "float64", "decimal(10,2)", "decimal(38,38)", "decimal(38,0)"],
    "moment": ["timestamp", "timestamp_ntz", "date"],
    "calendar": ["timestamp", "timestamp_ntz", "date"],
    "bytes": ["string", "binary"],
    "bits": ["string", "binary", "int32", "int64"],
    "integer": ["int32", "int64"],
    "decimal(16,6)": ["decimal(10,2)", "decimal(18,18)", "int32"],
}


def _function(op: str, rng: random.Random, depth: int) -> Expr:
    """A call with arguments of the kinds that the function takes."""
    function = FUNCTIONS[op]
    most = len(function.takes)
    kinds = function.kinds(rng.randint(max(most - function.optional, 1), most + 2 * function.repeated)) or ()
    same = rng.choice(TYPES)
    collection = rng.choice([one for one in TYPES if is_nested(one)])
    args: list[Expr] = []
    for kind in kinds:
        wanted = "string" if kind == "unit" else kind.removeprefix("=")
        if constant(kind):
            texts = TEXTS_OF.get(op, ["", "a", "é ", "$1", "\\\\"])
            numbers = {"=int32": [0, 1, -1, 3, -7, 40], "=int64": [0, 1, -1, 2**62, -(2**62)]}
            choices = numbers.get(kind, texts)
            args.append(lit(rng.choice([*choices, None]) if rng.random() < 0.2 else choices[1], wanted))
            continue
        type_ = same if wanted == "same" else rng.choice(KINDS.get(wanted, [wanted]))
        if wanted == "any":
            type_ = collection
        if wanted in ("element", "key"):
            inside = parts(args[0].type) if is_nested(args[0].type) else None
            type_ = "int32" if inside is None or (inside.kind == "array" and wanted == "key") else inside.types[0]
            type_ = type_ if type_ in TYPES else "int64"
        name = next(name for name, found in NAMES.items() if found == type_)
        args.append(col(name, type_) if rng.random() < 0.7 else _expression(rng, depth))
    return call(op, *args)


def _with_function(function: HigherOrder, rng: random.Random) -> Expr:
    """A call with a function of elements."""

    def body(known: Mapping[str, Expr]) -> Expr:
        first, *rest = known.values()
        if function.condition:
            return rng.choice([call("isnull", first), call("eq", [first, *rest][-1], _expression(rng, 0))])
        if function.name == "reduce":
            return call("coalesce", first, first)
        return rng.choice([first, *rest, _expression(rng, 0)])

    collection = rng.choice([name for name, type_ in NAMES.items() if is_nested(type_)])
    values = [col(collection, NAMES[collection]) for _ in function.takes]
    names = function.names[: rng.randint(function.least, len(function.names))]
    made = with_lambdas(function.name.upper(), [*values, Lambda(names, body)])
    assert made is not None
    return made


def _applied(op: str, rng: random.Random, depth: int) -> Expr:
    def arg() -> Expr:
        wanted = [name for name, type_ in NAMES.items() if type_ == OPERANDS.get(op)]
        return col(wanted[0], OPERANDS[op]) if wanted and rng.random() < 0.6 else _expression(rng, depth)

    if op == "named_struct":
        return call(op, lit("a"), arg(), lit("b"), arg())
    if op == "map":
        return call(op, lit("k"), col("c1", "int32"), _expression(rng, 0) if depth else lit("l"), col("c1", "int32"))
    if op == "arrays_zip":
        return call(op, *(part for name in "ab" for part in (lit(name), arg())))
    if op == "sequence_by":
        of = {type_: col(name, type_) for name, type_ in NAMES.items()}
        first, step = rng.choice([("int32",) * 2, ("int64",) * 2, ("date", "months"), ("timestamp", "duration")])
        return call(op, of[first], of[first], of[step])
    if op == "format_piece":
        return call(op, lit(rng.choice(["%s", "%08d", "%,.3f", "%x"])), arg())
    if op == "cast":
        return cast(arg(), rng.choice(TYPES))
    if op == "like":
        return call(
            op, arg(), lit(rng.choice(["", "%", "_%", "a\\%", "ß", "!%", "(a.*"])), value=rng.choice([None, "!"])
        )
    function = FUNCTIONS.get(op)
    if isinstance(function, HigherOrder):
        return _with_function(function, rng)
    if function is not None:
        return _function(op, rng, depth)
    if op in ("in", "case", "and", "or"):
        return call(op, *(arg() for _ in range(3)))
    return call(op, *(arg() for _ in range(2 if op in COMPARISONS or op in ARITHMETIC else 1)))


def _check(expr: Expr, columns: Mapping[str, pa.Array], length: int) -> None:
    found = expr.evaluate(columns, length)
    assert len(found) == length
    assert found.type == (pa.null() if expr.type == "null" else arrow_type(expr.type)), str(expr)
    found.validate()
    if expr.op in {*ARITHMETIC, "neg", "abs"} and expr.type == "int64":
        assert RESERVED not in found.to_pylist()
    if expr.type.startswith("decimal") and expr.op != "col":
        found.validate(full=True)  # no value has more digits than its type


@draws(250, 400)
@given(SEEDS, st.sampled_from([1, 2, 9, 0]))
def test_no_expression_fails_on_any_values(seed: int, length: int) -> None:
    rng = random.Random(seed)
    expr = _expression(rng, rng.choice([1, 1, 2, 3]))
    _check(expr, _columns(expr, rng, length), length)


@pytest.mark.parametrize("op", OPERATORS)
@settings(max_examples=settings().max_examples // 3)
@given(seed=SEEDS)
def test_every_operator_is_total(op: str, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(500):
        try:
            expr = _applied(op, rng, 0)
        except PlanError:
            continue
        _check(expr, _columns(expr, rng, 8), 8)
        return
    raise AssertionError(f"no operands of {op} were found")


def test_an_expression_of_chunks_is_that_of_the_whole() -> None:
    columns = cases.columns()
    chunked = {name: pa.chunked_array([array[:5], array[5:]]) for name, array in columns.items()}
    none = {name: pa.chunked_array([], array.type) for name, array in columns.items()}
    for ours, _ in cases.pairs():
        expr = cases.expression(ours)
        whole = expr.evaluate(columns)
        assert expr.evaluate(chunked).to_string() == whole.to_string(), ours
        assert len(expr.evaluate(none, 0)) == 0


def test_a_length_of_time_times_a_decimal_of_many_digits_has_a_value() -> None:
    expr = call("mul", col("g", "duration"), col("d", "decimal(38,38)"))
    columns = {
        "g": pa.array([10, -6, None], pa.duration("us")),
        "d": pa.array([Decimal("0.5"), Decimal("0.25"), None], pa.decimal128(38, 38)),
    }
    found = expr.evaluate(columns).cast(pa.int64())
    assert found.to_pylist() == [5, -2, None]
