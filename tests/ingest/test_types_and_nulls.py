"""Every column type through joins, outputs, deletes and membership tests; NULL in each role it can play."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import crown
import plans
from crown.errors import BadRowError
from tests.engine.comparison import SideBySide
from tests.oracles.expectation import rows
from tests.strategies import VALUES

WIDE = {"decimal(38,10)": (Decimal("1e27") + Decimal("0.0000000001"), Decimal("-1e27"), Decimal(0))}


@pytest.mark.parametrize("kind", [*VALUES, *WIDE])
def test_every_value_of_a_type_joins_with_itself_only(kind: str) -> None:
    tables = {"R": {"a": kind, "k": "int64"}, "S": {"a": kind, "m": "int64"}}
    sql = "SELECT DISTINCT R.a AS a, k, m FROM R, S WHERE R.a = S.a"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    values = [*{**VALUES, **WIDE}[kind], None]
    sides.step({"R": [((value, i), 1) for i, value in enumerate(values)]})
    sides.step({"S": [((value, i), 1) for i, value in enumerate(values)]})
    sides.save_and_load()
    assert all(row[0] is not None for row in sides.current)
    sides.step({"R": [((value, i), -1) for i, value in enumerate(values) if i % 2]})
    sides.step_by_removal()


@pytest.mark.parametrize("kind", [*VALUES, *WIDE])
def test_every_value_of_a_type_is_an_output(kind: str) -> None:
    tables = {"R": {"a": kind, "k": "int64"}, "S": {"k": "int64"}}
    sql = "SELECT DISTINCT a, R.k AS k FROM R, S WHERE R.k = S.k"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    values = [*{**VALUES, **WIDE}[kind], None]
    sides.step({"R": [((value, 0), 1) for value in values], "S": [((0,), 1)]})
    for view in sides.views:
        assert all(view.contains((value, 0)) for value in values)
        assert not any(view.contains((value, 1)) for value in values)
    sides.step({"R": [((value, 0), -1) for value in values]})
    assert not sides.current


def test_null_never_joins_but_is_a_value_in_outputs() -> None:
    tables = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "string"}}
    sql = "SELECT DISTINCT a, R.b AS b, c FROM R, S WHERE R.b = S.b"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step({"R": [((1, None), 1), ((None, 2), 1)], "S": [((None, "x"), 1), ((2, None), 2)]})
    assert sides.current == {(None, 2, None)}
    assert sides.step({"R": [((None, 2), -1), ((1, None), -1)]}) == Counter({(None, 2, None): -1})


@pytest.mark.parametrize("copies", [2, 3])
def test_a_relation_joined_with_itself_on_all_columns_loses_its_nulls(copies: int) -> None:
    tables = {"R": {"a": "int64"}}
    names = [f"t{i}" for i in range(copies)]
    equal = " AND ".join(f"t0.a = {name}.a" for name in names[1:])
    sql = f"SELECT DISTINCT t0.a AS a FROM {', '.join(f'R AS {name}' for name in names)} WHERE {equal}"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step({"R": [((1,), 1), ((None,), 1)]})
    assert sides.current == {(1,)}


def test_two_nulls_are_one_tuple() -> None:
    tables = {"R": {"a": "int64", "b": "string"}}
    sql = "SELECT DISTINCT a, b FROM R"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    assert sides.step({"R": [((None, None), 1)]}) == Counter({(None, None): 1})
    assert sides.step({"R": [((None, None), 1)]}) == Counter()
    assert sides.step({"R": [((None, None), -1)]}) == Counter()
    assert sides.step({"R": [((None, None), -1)]}) == Counter({(None, None): -1})


def test_null_safe_equality_joins_nulls() -> None:
    tables = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
    sql = "SELECT DISTINCT a, R.b AS b, c FROM R, S WHERE R.b IS NOT DISTINCT FROM S.b"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step({"R": [((1, None), 1), ((2, 2), 1)], "S": [((None, 3), 1), ((2, 4), 1)]})
    assert sides.current == {(1, None, 3), (2, 2, 4)}
    assert sides.step({"S": [((None, 3), -1)]}) == Counter({(1, None, 3): -1})


def test_two_nan_are_one_value_and_so_are_the_zeros() -> None:
    tables = {"R": {"a": "float64"}, "S": {"a": "float64"}}
    sql = "SELECT DISTINCT R.a AS a FROM R, S WHERE R.a = S.a"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    assert (
        sum(sides.step({"R": [((float("nan"),), 1), ((0.0,), 1)], "S": [((float("nan"),), 1), ((-0.0,), 1)]}).values())
        == 2
    )
    assert sum(sides.step({"R": [((-float("nan"),), -1), ((-0.0,), -1)]}).values()) == -2


def test_equal_strings_in_different_columns_are_different_values() -> None:
    tables = {"R": {"a": "string", "b": "string"}}
    sql = "SELECT DISTINCT x.a AS a, y.b AS b FROM R AS x, R AS y WHERE x.b = y.a"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step({"R": [(("u", "v"), 1), (("v", "u"), 1), (("", "u"), 1)]})
    sides.step({"R": [(("u", "v"), -1)]})
    sides.step_by_removal()


def test_integers_of_two_widths_join() -> None:
    tables = {"R": {"a": "int32"}, "S": {"a": "int64", "b": "int64"}}
    sql = "SELECT DISTINCT R.a AS a, b FROM R, S WHERE R.a = S.a"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step({"R": [((-1,), 1), ((2**31 - 1,), 1)], "S": [((-1, 1), 1), ((2**31 - 1, 2), 1), ((2**31, 3), 1)]})
    assert len(sides.current) == 2
    sides.step_by_removal()


def test_a_cast_output_is_a_member() -> None:
    tables = {"R": {"a": "int32", "b": "int64"}}
    sql = "SELECT DISTINCT CAST(a AS BIGINT) AS wide, b FROM R"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    sides.step({"R": [((1, 2), 1), ((None, 2), 1)]})
    assert sides.current == {(1, 2), (None, 2)}


def test_a_computed_output_merges_rows_and_its_deltas_are_exact() -> None:
    tables = {"R": {"a": "int64", "b": "int64"}}
    sql = "SELECT DISTINCT a + b AS total FROM R"
    sides = SideBySide(plans.plan(sql, tables), tables, sql)
    assert sides.step({"R": [((1, 2), 1), ((2, 1), 1)]}) == Counter({(3,): 1})
    assert sides.step({"R": [((1, 2), -1)]}) == Counter()
    assert sides.step({"R": [((2, 1), -1), ((0, 3), 1)]}) == Counter()
    assert sides.step({"R": [((0, 3), -1), ((None, 3), 1)]}) == Counter({(3,): -1, (None,): 1})
    sides.step_by_removal()


FORMS = {
    "arrow": lambda table: table,
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "chunked": lambda table: pa.concat_tables([table.slice(0, 1), table.slice(1)]),
    "list of dicts": lambda table: table.to_pylist(),
    "dict of columns": lambda table: table.to_pydict(),
    "pandas": lambda table: table.to_pandas(),
    "pandas with arrow types": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "large strings": lambda table: table.set_column(1, "s", table["s"].cast(pa.large_string())),
    "dictionary": lambda table: table.set_column(1, "s", table["s"].dictionary_encode()),
    "narrow integers": lambda table: table.set_column(0, "i", table["i"].cast(pa.int8())),
    "more columns, other order": lambda table: table.select(["_weight", "t", "d", "s", "i"]).append_column(
        "other", pa.array(["?"] * table.num_rows)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_changes_come_in_any_form(form: str) -> None:
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    table = pa.table(
        {
            "i": pa.array([1, 2, None], pa.int64()),
            "s": pa.array(["x", None, "z"]),
            "d": pa.array([dt.date(2024, 1, 1), None, dt.date(1969, 12, 31)]),
            "t": pa.array([moment, None, moment], pa.timestamp("us", tz="UTC")),
            "_weight": pa.array([1, 2, 1], pa.int64()),
        }
    )
    view = crown.view("SELECT DISTINCT i, s, d, t FROM R", {"R": table.schema.remove(4)})
    delta = view.apply({"R": FORMS[form](table)})
    expected = {
        (1, "x", dt.date(2024, 1, 1), moment),
        (2, None, None, None),
        (None, "z", dt.date(1969, 12, 31), moment),
    }
    assert set(rows(delta.drop_columns("_weight"))) == expected
    assert delta["_weight"].to_pylist() == [1, 1, 1]
    assert delta.schema.field("t").type == pa.timestamp("us", tz="UTC")
    removed = view.apply({"R": [{**row, "_weight": -2} for row in table.to_pylist()]})
    assert removed["_weight"].to_pylist() == [-1, -1, -1]
    assert view.count() == 0


@pytest.mark.parametrize(
    ("kind", "array", "value"),
    [
        *((f"decimal({digits},2)", pa.array([5], type_), Decimal("5.00")) for digits in (3, 10, 18, 20, 38)
          for type_ in (pa.int8(), pa.int32(), pa.int64(), pa.uint64())),
        ("decimal(38,38)", pa.array([0]), Decimal(0)),
        ("binary", pa.array([b"a"], pa.binary_view()), b"a"),
        ("float64", pa.array(np.array([1.5], np.float16)), 1.5),
    ],
)  # fmt: skip
def test_a_value_of_another_type_that_fits_is_taken(kind: str, array: pa.Array, value: object) -> None:
    view = crown.view("SELECT d FROM r", {"r": {"d": kind}})
    assert view.apply({"r": pa.table({"d": array})}).column("d").to_pylist() == [value]
    assert view.apply({"r": [{"d": value}]}).column("d").to_pylist() == [value]


@pytest.mark.parametrize(("kind", "value"), [("decimal(3,2)", 10), ("decimal(38,38)", 1), ("decimal(18,2)", 10**16)])
def test_a_whole_number_with_too_many_digits_is_a_bad_row(kind: str, value: int) -> None:
    view = crown.view("SELECT d FROM r", {"r": {"d": kind}})
    for given in ([{"d": value}], pa.table({"d": [value]}), pd.DataFrame({"d": [value]})):
        with pytest.raises(BadRowError, match=rf"column 'd': {value} does not fit decimal"):
            view.apply({"r": given})
