"""All functions of one window have one order of ties: the row before a row is the same row for each of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import crown
import plans
from plans.programs.stages import OverStage
from plans.schema import Schema
from tests.marks import seeds
from tests.oracles.database import Database
from tests.oracles.duck import results

SCHEMA = {"t": {"u": "int64", "at": "int64", "v": "int64", "w": "int64"}}
BY = "PARTITION BY u ORDER BY at"
NEAR = f"LAG(v) OVER ({BY}) AS p, LEAD(v) OVER ({BY}) AS f"
N = f"SUM(1) OVER ({BY} ROWS UNBOUNDED PRECEDING) AS n"
NESTED = {
    "columns are left out": f"SELECT u, p, f, {N} FROM (SELECT w, u, at, {NEAR} FROM t)",
    "columns in another order": f"SELECT v, w, u, p, f, {N} FROM (SELECT w, at, v, u, {NEAR} FROM t)",
    "columns with other names": (
        "SELECT x AS u, p, f, SUM(1) OVER (PARTITION BY x ORDER BY y ROWS UNBOUNDED PRECEDING) AS n "
        f"FROM (SELECT w, u AS x, at AS y, p, f FROM (SELECT w, u, at, {NEAR} FROM t))"
    ),
    "another window beside it": (
        f"SELECT u, p, f, {N}, SUM(1) OVER (ORDER BY p, at) AS z FROM (SELECT u, at, {NEAR} FROM t)"
    ),
    "another window between": (
        f"SELECT u, p, f, {N} FROM (SELECT u, at, p, f, ROW_NUMBER() OVER (ORDER BY p, f, at, u) AS z "
        f"FROM (SELECT u, w, at, {NEAR} FROM t))"
    ),
    "falling, NULLs last": (
        f"SELECT u, p, f, {N.replace('at ', 'at DESC NULLS LAST ')} "
        f"FROM (SELECT u, w, at, {NEAR.replace('at)', 'at DESC NULLS LAST)')} FROM t)"
    ),
    "three of them": (
        "SELECT u, p, f, m AS n FROM (SELECT u, p, f, n, ROW_NUMBER() OVER (PARTITION BY u ORDER BY at) AS m FROM "
        f"(SELECT w, u, at, p, f, {N} FROM (SELECT w, u, at, {NEAR} FROM t))) WHERE m = n"
    ),
    "read twice": (
        f"WITH c AS (SELECT w, u, at, {NEAR} FROM t) SELECT u, p, f, n FROM (SELECT u, p, f, {N} FROM c) "
        "WHERE EXISTS (SELECT * FROM c WHERE c.w >= 0)"
    ),
    "a join between": (
        f"SELECT u, p, f, {N} FROM (SELECT q.u, q.at, p, f FROM (SELECT w, u, at, {NEAR} FROM t) q "
        "JOIN one ON q.u >= one.x)"
    ),
}  # fmt: skip
ONE = {"one": {"x": "int64"}}


def stream(seed: int, values: int = 1000) -> Iterator[tuple[list[tuple[int, ...]], list[dict[str, Any]]]]:
    """The rows after each batch, and the changes of the batch. The values of ``v`` are unique."""
    random, rows = Random(seed), []
    for batch in range(12):
        new = [(random.randrange(2), random.randrange(3), values * batch + i, random.randrange(3)) for i in range(5)]
        gone = [row for row in rows if random.random() < 0.2]
        rows = [row for row in rows if row not in gone] + new
        yield rows, [{**dict(zip(SCHEMA["t"], r, strict=True)), "_weight": 1 if r in new else -1} for r in new + gone]


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("query", NESTED.values(), ids=NESTED)
def test_a_function_over_the_result_of_others_has_their_order(query: str, seed: int) -> None:
    view = crown.view(query, schema={**SCHEMA, **ONE})
    view.update({"one": [(0,)]})
    for rows, changes in stream(seed):
        view.update({"t": changes})
        found = {(row["u"], row["n"]): row for row in view}
        assert len(found) == len(rows)
        for (user, n), row in found.items():
            after = found.get((user, n + 2))
            assert after is None or after["p"] == row["f"], "the row after this one is the row before the next but one"


SESSIONS = """
SELECT v, w, SUM(new) OVER (PARTITION BY u ORDER BY at ROWS UNBOUNDED PRECEDING) AS session FROM
(SELECT w, v, u, at, CASE WHEN at <= LAG(at) OVER (PARTITION BY u ORDER BY at) + 1 THEN 0 ELSE 1 END AS new FROM t)
"""


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_rows_at_one_time_are_in_one_session(seed: int) -> None:
    view, database = crown.view(SESSIONS, schema=SCHEMA), Database(SCHEMA)
    for rows, changes in stream(seed):
        spread = [{**row, "at": row["at"] * 2 * (1 + row["u"])} for row in changes]
        view.update({"t": spread})
        database.apply({"t": [(tuple(row.values())[:4], row["_weight"]) for row in spread]})
        assert Counter(tuple(row.values()) for row in view) == results(
            re.sub(r"\bat\b", '"at"', SESSIONS).replace('BY "at"', 'BY "at", v'), database
        )
        assert len(rows) == view.count()


def test_a_relation_that_needs_no_other_column_stays_one_stage() -> None:
    query = f"SELECT u, at, v, p, {N} FROM (SELECT u, at, v, LAG(v) OVER ({BY}) AS p FROM t)"
    both = f"WITH c AS ({query}) SELECT a.p, b.n FROM c a JOIN c b ON a.v = b.v"
    made = plans.program(both, Schema.of(SCHEMA))
    assert sum(isinstance(stage, OverStage) for stage in made.stages) == 2
