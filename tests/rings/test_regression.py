"""Regression over joins: sums against DuckDB and the laboratory's view tree after every batch, coefficients against
least squares over the rows."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from signal import SIGINT, raise_signal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
import crown.ml
from crown.errors import BadRowError, ChangeError, CrownError, MissingDeleteError
from crown.ml import RankDeficientWarning, Regression, regression
from crown.stages.groups.group import Groups
from plans import PlanError
from plans.programs.stages import JoinStage
from plans.types import arrow_type
from tests.models.rings.sums import maintained_sums
from tests.oracles import duck

SCHEMA = {
    "a": {"k": "int64", "f1": "int64"},
    "b": {"k": "int64", "f2": "float64", "y": "int64", "tag": "string"},
    "c": {"k": "int64", "f3": "decimal(10,2)"},
}
ABSENT = {"int64": 99, "float64": 9.5, "string": "z", "decimal(10,2)": "9.99"}
FLOATS = (0.1, -0.75, 1e-3, 2.5)
WIDE = (*FLOATS, 1e-15, 7e22)
TWO = "SELECT f1, f2, y FROM a JOIN b USING (k)"


class Tables:
    """The base tables as bags, and what DuckDB makes of them."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[tuple]] = {name: Counter() for name in SCHEMA}

    def batch(self, chance: Random, size: int, nulls: bool = False) -> dict[str, list[dict[str, Any]]]:
        """Random inserts and deletes, some of them of rows that are not there; they are taken in here as well."""
        out: dict[str, list[dict[str, Any]]] = {}
        for name, there in self.rows.items():
            net: Counter[tuple] = Counter()
            for _ in range(size):
                old = [row for row in there if there[row] + net[row] > 0]
                if old and chance.random() < 0.4:
                    net[chance.choice(old)] -= 1
                elif chance.random() < 0.1:
                    net[tuple(ABSENT[type_] for type_ in SCHEMA[name].values())] -= 1
                else:
                    net[self.row(chance, name, nulls)] += chance.choice([1, 1, 1, 2])
            out[name] = [dict(zip(SCHEMA[name], row, strict=True)) | {"_weight": w} for row, w in net.items()]
            for row, weight in net.items():
                there[row] = max(there[row] + weight, 0)
                if not there[row]:
                    del there[row]
        return out

    @staticmethod
    def row(chance: Random, name: str, nulls: bool) -> tuple:
        values = {
            "int64": lambda: chance.randint(-3, 3),
            "float64": lambda: chance.choice(WIDE if nulls else FLOATS),
            "string": lambda: chance.choice("xy"),
            "decimal(10,2)": lambda: chance.choice(["1.10", "-0.25"]),
        }
        return tuple(None if nulls and chance.random() < 0.2 else values[type_]() for type_ in SCHEMA[name].values())

    def query(self, sql: str) -> list[tuple]:
        with duck.holding({name: self.arrow(name) for name in SCHEMA}) as cursor:
            return cursor.execute(sql).fetchall()

    def arrow(self, name: str) -> pa.Table:
        """The rows of a table; decimals are said in text."""
        rows = list(self.rows[name].elements())
        columns = {}
        for i, (column, type_) in enumerate(SCHEMA[name].items()):
            said = pa.string() if type_.startswith("decimal") else arrow_type(type_)
            columns[column] = pa.array([row[i] for row in rows], said).cast(arrow_type(type_))
        return pa.table(columns)


IN_THE_TREE = [
    (TWO, ["f1", "f2", "y"]),
    ("SELECT f1, f2, f3, y FROM a JOIN b USING (k) JOIN c USING (k)", ["f1", "f2", "f3", "y"]),
    ("SELECT a.f1 * 2 AS double, b.y FROM a JOIN b ON a.k = b.k WHERE b.tag = 'x' AND a.f1 > -2", ["double", "y"]),
    ("SELECT one.f1, two.f1 AS g1, y FROM a one JOIN a two ON one.k = two.k JOIN b ON two.k = b.k", ["f1", "g1", "y"]),
    ("SELECT f1, k, y FROM a JOIN b USING (k)", ["f1", "k", "y"]),
    ("SELECT f1, y FROM a, b", ["f1", "y"]),
    ("SELECT a.f1, b.y FROM a JOIN b ON a.f1 <=> b.y", ["f1", "y"]),
]
OTHERS = [
    ("SELECT f1 FROM a", ["f1"]),
    ("SELECT f1 + b.y AS s, f1 AS n, f2 FROM a JOIN b USING (k)", ["s", "n", "f2"]),
    ("SELECT f1, y FROM a JOIN b ON a.k < b.k", ["f1", "y"]),
    ("SELECT DISTINCT f1, f2, y FROM a JOIN b USING (k)", ["f1", "f2", "y"]),
    ("SELECT f1, f3, y FROM a LEFT JOIN c ON a.k = c.k JOIN b ON a.k = b.k", ["f1", "f3", "y"]),
    ("SELECT f1, y FROM a JOIN b USING (k) WHERE k IN (SELECT k FROM c)", ["f1", "y"]),
    ("SELECT g.n, b.y FROM b JOIN (SELECT k, COUNT(*) AS n FROM a GROUP BY k) g ON b.k = g.k", ["n", "y"]),
    ("SELECT f1 AS x FROM a UNION ALL SELECT y AS x FROM b", ["x"]),
]


def exact(value: Any) -> Fraction:
    return Fraction(value)


def read_of(sql: str, batch: dict[str, Any]) -> dict[str, Any]:
    return {name: rows for name, rows in batch.items() if name in reads(sql)}


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(("sql", "columns"), IN_THE_TREE + OTHERS)
def test_the_sums_are_those_of_the_joined_rows_after_every_batch(sql: str, columns: list[str], nulls: bool) -> None:
    chance = Random(f"{sql} {nulls}")
    tables, model = Tables(), regression(sql, SCHEMA, target=columns[-1])
    for _ in range(6):
        model.apply(read_of(sql, tables.batch(chance, 8, nulls)))
        names = [name.lower() for name in (*model.features, model.target)]
        rows = tables.query(f"SELECT {', '.join(names)} FROM ({sql.replace('<=>', 'IS NOT DISTINCT FROM')})")
        full = [dict(zip(names, map(exact, row), strict=True)) for row in rows if None not in row]
        assert (model.rows, model.skipped) == (len(full), len(rows) - len(full))
        for one in columns:
            assert model.sum(one) == sum(row[one] for row in full)
            for other in columns:
                assert model.sum(one, other) == sum(row[one] * row[other] for row in full)
    model.view.check_invariants()


@pytest.mark.parametrize(("sql", "columns"), IN_THE_TREE)
def test_where_the_join_forms_the_sums_they_are_those_of_the_view_tree(sql: str, columns: list[str]) -> None:
    chance, tables = Random(f"{sql} twin"), Tables()
    model = regression(sql, SCHEMA, target=columns[-1])
    stages = model.view.plan.stages
    assert [stage.mode for stage in stages if isinstance(stage, JoinStage)] == ["payload"]
    twin, _, _ = maintained_sums(sql, SCHEMA, columns[-1], None, "ignore")
    for _ in range(4):
        batch = read_of(sql, tables.batch(chance, 12, True))
        model.apply(batch)
        twin.apply(batch)
        assert (model.rows, model.skipped) == (twin.rows, twin.skipped)
        assert model.missing == twin.missing or (
            "WHERE" in sql and model.missing < twin.missing
        )  # of rows that are read
        for names in twin.monomials:
            assert model.sum(*names) == twin.sum(*names)


def reads(sql: str) -> set[str]:
    return {name for name in SCHEMA if re.search(rf"(FROM|JOIN|,) {name}\b", sql)}


def filled(sql: str = TWO, **more: Any) -> tuple[Tables, Regression]:
    tables, model = Tables(), regression(sql, SCHEMA, target="y", **more)
    changes = tables.batch(Random(7), 60)
    model.apply({name: rows for name, rows in changes.items() if name in reads(sql)})
    return tables, model


def test_the_coefficients_are_those_of_least_squares_over_the_joined_rows() -> None:
    tables, model = filled()
    chance = Random(8)
    for _ in range(5):
        changes = tables.batch(chance, 20)
        model.apply({name: changes[name] for name in ("a", "b")})
        rows = np.array(tables.query(TWO), float)
        design = np.column_stack([np.ones(len(rows)), rows[:, :2]])
        expected = np.linalg.lstsq(design, rows[:, 2], rcond=None)[0]
        found = model.coefficients()
        np.testing.assert_allclose([found.intercept, found["f1"], found["f2"]], expected, rtol=1e-9)
        assert (list(found), found.rank, found.rows) == (["f1", "f2"], 2, len(rows))
        assert model.intercept == found.intercept


@pytest.mark.parametrize("split", ["rows one by one", "relations one by one", "batches the other way round"])
def test_however_changes_are_split_into_batches_the_sums_are_the_same(split: str) -> None:
    chance, tables = Random(9), Tables()
    inserts = [{name: rows for name, rows in tables.batch(chance, 15).items() if name in "ab"} for _ in range(3)]
    batches = [{name: [row for row in rows if row["_weight"] > 0] for name, rows in batch.items()} for batch in inserts]
    whole, parts = (regression(TWO, SCHEMA, target="y") for _ in range(2))
    for batch in batches:
        whole.apply(batch)
    for batch in reversed(batches) if split == "batches the other way round" else batches:
        if split == "rows one by one":
            for name, rows in batch.items():
                for row in rows:
                    parts.apply({name: [row]})
        elif split == "relations one by one":
            for name, rows in batch.items():
                parts.apply({name: rows})
        else:
            parts.apply(batch)
    assert whole.rows > 20
    for names in whole._sums.monomials:
        assert whole.sum(*names) == parts.sum(*names)
    assert dict(whole.coefficients()) == dict(parts.coefficients())


def test_when_all_rows_are_gone_nothing_is_left() -> None:
    tables, model = filled()
    model.apply(
        {
            name: [dict(zip(SCHEMA[name], row, strict=True)) | {"_weight": -n} for row, n in tables.rows[name].items()]
            for name in ("a", "b")
        }
    )
    assert all(model.sum(*names) == 0 for names in model._sums.monomials)
    assert (model.rows, model.skipped) == (0, 0)


def test_ctrl_c_leaves_all_of_a_batch_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = filled()
    before = {names: model.sum(*names) for names in model._sums.monomials}
    add = Groups.apply

    def interrupted(*given: Any) -> Any:
        raise_signal(SIGINT)
        return add(*given)

    monkeypatch.setattr(Groups, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.apply({"a": [{"k": 1, "f1": 2}], "b": [{"k": 1, "f2": 0.5, "y": 3, "tag": "x"}]})
    changed = model.view.stats()["batches"] - 1
    assert ({names: model.sum(*names) for names in before} == before) == (not changed)
    model.view.check_invariants()


def test_a_saved_model_goes_on_with_the_same_sums(tmp_path: Path) -> None:
    tables, model = filled()
    model.save(tmp_path / "model")
    again = crown.ml.load(tmp_path / "model")
    assert (again.features, again.target, again.query) == (("f1", "f2"), "y", TWO)
    batch = read_of(TWO, tables.batch(Random(3), 20, True))
    for one in (model, again):
        one.apply(batch)
    assert {names: model.sum(*names) for names in model._sums.monomials} == {
        names: again.sum(*names) for names in model._sums.monomials
    }
    assert again.coefficients() == model.coefficients()


def test_a_model_in_a_folder_is_there_again_after_a_crash(tmp_path: Path) -> None:
    made = crown.ml.program(TWO, SCHEMA, target="y")
    with crown.open(made, tmp_path / "model") as view:
        Regression(view).apply({"a": [{"k": 1, "f1": 2}], "b": [{"k": 1, "f2": 0.5, "y": 3, "tag": "x"}]})
    with crown.open(None, tmp_path / "model") as view:
        assert Regression(view).sum("f2", "y") == Fraction(3, 2)
    with pytest.raises(CrownError, match=r"has no sums of a regression; create it from crown\.ml\.program"):
        Regression(crown.view("SELECT f1, COUNT(*) AS n FROM a GROUP BY f1", SCHEMA))
    with pytest.raises(CrownError, match="has no sums of a regression"):
        Regression(crown.view("SELECT DISTINCT f1 FROM a", SCHEMA))


@pytest.mark.parametrize("sql", [TWO, "SELECT f2, y FROM b"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_refuses_its_batch(sql: str, value: float) -> None:
    model = regression(sql, SCHEMA, target="y")
    first = {"a": [{"k": 1, "f1": 1}], "b": [{"k": 1, "f2": 0.5, "y": 1, "tag": "x"}]}
    model.apply(read_of(sql, first))
    said = f"relation 'b', row 1: f2 is {value}, and a regression takes finite numbers; leave such rows out with WHERE"
    rows = [{"k": 1, "f2": f2, "y": 1, "tag": "x"} for f2 in (2.0, value, value)]
    with pytest.raises(ChangeError, match=said):
        model.apply({"b": rows})
    with pytest.raises(ChangeError, match=said):
        model.apply({"b": pa.Table.from_pylist(rows)})
    assert (model.rows, model.sum("f2")) == (1, Fraction(1, 2))
    model.view.check_invariants()


def test_a_value_that_an_expression_or_an_earlier_batch_made_infinite_is_told_by_its_feature() -> None:
    made = regression("SELECT f2 * f2 AS f, y FROM b", SCHEMA, target="y")
    with pytest.raises(ChangeError, match="f is NaN or infinite in a row; leave such rows out with WHERE"):
        made.apply({"b": [{"k": 1, "f2": 1e300, "y": 1, "tag": "x"}]})
    joined = regression(TWO, SCHEMA, target="y")
    joined.apply({"b": [{"k": 1, "f2": float("inf"), "y": 1, "tag": "x"}]})
    with pytest.raises(ChangeError, match="f2 is NaN or infinite in a row"):
        joined.apply({"a": [{"k": 1, "f1": 1}]})


def test_the_row_is_that_of_the_batch_as_it_was_given(tmp_path: Path) -> None:
    options = {"on_bad_row": "quarantine", "quarantine": tmp_path / "bad"}
    model = regression("SELECT f2, y FROM b", SCHEMA, target="y", **options)
    rows = [{"k": "no number", "f2": 1, "y": 1, "tag": "x"}, {"k": 1, "f2": float("nan"), "y": 1, "tag": "x"}]
    with pytest.raises(ChangeError, match="relation 'b', row 1: f2 is nan"):
        model.apply({"b": rows})


def test_keys_may_be_of_any_type_and_of_any_time() -> None:
    types = {"t": "timestamp", "d": "date", "s": "string", "m": "decimal(20,2)", "x": "float64", "n": "binary"}
    schema = {"p": types | {"f": "int64"}, "q": types | {"y": "int64"}}
    model = regression(f"SELECT f, y FROM p JOIN q USING ({', '.join(types)})", schema, target="y")
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    day = pa.array([2**30], pa.int32()).cast(pa.date32())
    keys = {"t": far, "d": day, "s": ["é"], "m": pa.array(["1.50"]).cast(pa.decimal128(20, 2)), "x": [float("nan")]}
    keys |= {"n": [b"\0"]}
    model.apply({"p": pa.table(keys | {"f": [2]}), "q": pa.table(keys | {"y": [5]})})
    assert (model.rows, model.sum("f", "y")) == (1, 10)
    model.apply({"p": pa.table(keys | {"f": [2], "_weight": [-1]})})
    assert (model.rows, model.missing) == (0, 0)


def test_ridge_penalizes_the_coefficients_and_not_the_intercept() -> None:
    tables, model = filled()
    rows = np.array(tables.query(TWO), float)
    x, y = rows[:, :2] - rows[:, :2].mean(0), rows[:, 2] - rows[:, 2].mean()
    expected = np.linalg.solve(x.T @ x + 2.5 * np.eye(2), x.T @ y)
    found = model.coefficients(ridge=2.5)
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-9)
    assert found.intercept == pytest.approx(rows[:, 2].mean() - rows[:, :2].mean(0) @ expected, rel=1e-9)
    assert found.ridge == 2.5
    assert found.predict({"f1": 1, "f2": 2.0, "y": 0}) == pytest.approx(found.intercept + expected @ [1, 2.0])
    for row in ({"f1": 1}, {"f1": 1, "f2": None}, {"f1": 1, "f2": "two"}, {"f1": 10**400, "f2": 2}, [1, 2]):
        with pytest.raises(CrownError, match="predict takes a dict with a number for each of f1, f2; f"):
            found.predict(row)


def test_an_ill_conditioned_model_is_exact_where_double_sums_lose_all_digits() -> None:
    schema = {"t": {"x": "int64", "z": "int64", "y": "int64"}}
    model = regression("SELECT x, z, y FROM t", schema, target="y")
    rows = [
        (10**9 + i, 10**9 + i + (i % 3 == 0), 7 + 2 * (10**9 + i) - 5 * (10**9 + i + (i % 3 == 0))) for i in range(40)
    ]
    model.apply({"t": pa.table(dict(zip("xzy", map(list, zip(*rows, strict=True)), strict=True)))})
    found = model.coefficients()
    assert dict(found) == {"x": 2.0, "z": -5.0}
    assert found.intercept == 7.0


def test_dependent_features_warn_and_give_the_least_norm() -> None:
    schema = {"t": {"x": "int64", "z": "int64", "y": "int64"}}
    model = regression("SELECT x, z, y FROM t", schema, target="y")
    model.apply({"t": [{"x": i, "z": 2 * i, "y": 10 * i + 1} for i in range(4)]})
    with pytest.warns(RankDeficientWarning, match="only 1 of 2 features are independent over the 4 rows"):
        found = model.coefficients()
    assert dict(found) == {"x": 2.0, "z": 4.0}
    assert (found.intercept, found.rank) == (1.0, 1)
    assert set(model.coefficients(ridge=0.5)) == {"x", "z"}


def test_without_rows_there_is_nothing_to_fit() -> None:
    model = regression(TWO, SCHEMA, target="y")
    assert (model.rows, model.skipped, model.sum("f1", "y")) == (0, 0, 0)
    with pytest.raises(CrownError, match="there is nothing to fit: no row of the query has a value in every feature"):
        model.coefficients()


def test_features_can_be_chosen_and_are_found_in_any_case() -> None:
    tables, model = filled(features=["F2"])
    rows = np.array(tables.query(TWO), float)
    expected = np.polyfit(rows[:, 1], rows[:, 2], 1)
    found = model.coefficients()
    assert list(found) == ["f2"]
    np.testing.assert_allclose([found["f2"], found.intercept], expected, rtol=1e-9)
    with pytest.raises(CrownError):
        model.sum("f1")


def test_deletes_of_absent_rows_are_counted_or_refused() -> None:
    row = {"k": 1, "f1": 2}
    model = regression(TWO, SCHEMA, target="y")
    model.apply({"a": [row | {"_weight": -2}]})
    model.apply({"a": [row], "b": [{"k": 1, "f2": 0.5, "y": 3}]})
    assert (model.rows, model.missing) == (1, 2)
    strict = regression(TWO, SCHEMA, target="y", on_missing="raise")
    other = {"k": 1, "f2": 0.5, "y": 3, "tag": "x"}
    strict.apply({"b": [other]})
    with pytest.raises(MissingDeleteError, match=r"relation .a.: the batch deletes 1 copy"):
        strict.apply({"b": [other], "a": [row | {"_weight": -1}]})
    strict.apply({"a": [row]})
    assert strict.rows == 1


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"z": []}, ChangeError, "relation 'z' is not part of this query, which reads: a, b"),
        ({"a": [], "A": []}, ChangeError, "relation 'A' occurs twice in one batch"),
        ({"a": [{"k": 1}]}, ChangeError, "column 'f1' is missing"),
        ({"a": [{"k": 1, "f1": "x"}]}, BadRowError, "relation 'a', row 0: "),
        ([], ChangeError, "changes must be a dict"),
    ],
)
def test_a_batch_that_cannot_be_taken_changes_nothing(changes: Any, error: type, sentence: str) -> None:
    model = regression(TWO, SCHEMA, target="y")
    with pytest.raises(error, match=sentence):
        model.apply(changes)
    model.apply({"b": [{"k": 1, "f2": 0.5, "y": 1}]})
    assert model.rows == 0
    model.apply({"a": [{"k": 1, "f1": 1}]})
    assert model.rows == 1


@pytest.mark.parametrize(
    ("sql", "more", "sentence"),
    [
        ("SELECT f1, tag, y FROM a JOIN b USING (k)", {}, "column tag is of type string; a regression takes numbers"),
        (TWO, {"target": "z"}, "'z' is not a column of the query, which has: f1, f2, y"),
        (TWO, {"features": "f1"}, "features must be a list of output columns, not 'f1'"),
        (TWO, {"features": ["f1", "y"]}, "'y' is named twice among features and target"),
        (TWO, {"on_missing": "no"}, 'on_missing must be "ignore", "raise" or "trust"'),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(sql: str, more: dict, sentence: str) -> None:
    with pytest.raises((PlanError, CrownError), match=sentence):
        regression(sql, SCHEMA, **({"target": "y"} | more))


@pytest.mark.parametrize("ridge", [-1, float("nan"), "1", None, True])
def test_a_penalty_that_is_none_is_refused(ridge: Any) -> None:
    _, model = filled()
    with pytest.raises(CrownError, match="ridge must be a number of 0 or more"):
        model.coefficients(ridge)


def test_explain_names_the_sums_and_where_they_are_formed() -> None:
    text = regression(TWO, SCHEMA, target="y").explain()
    assert text.splitlines()[0] == "linear regression of y on f1, f2"
    assert "sums: 10 monomials of degree 2" in text
    assert "SUM(f1 * y) AS sum_f1_y" in text
    assert "join (payload)" in text
    assert "join (set)" in regression("SELECT DISTINCT f1, y FROM a JOIN b USING (k)", SCHEMA, target="y").explain()
