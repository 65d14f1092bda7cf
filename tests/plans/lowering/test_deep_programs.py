"""Programs of long and deep queries: planned in time linear in their length, written as JSON and read back."""

from __future__ import annotations

import json
import time

import pytest

from plans import PlanError, Program, program
from tests.marks import every

SCHEMA = {"R": {"a": "int64", "b": "int64"}}


def nested(levels: int) -> str:
    """Returns groups of groups of groups."""
    query = "SELECT a FROM R"
    for i in range(levels):
        query = f"SELECT a, COUNT(*) AS n FROM ({query}) x{i} GROUP BY a"
    return query


def stacked(steps: int) -> str:
    """Returns CTEs each of which reads the one before it twice."""
    ctes = ["q0 AS (SELECT a, COUNT(*) AS n FROM R GROUP BY a)"]
    for i in range(steps):
        join = f"FROM q{i} x LEFT JOIN (SELECT a, n FROM q{i} WHERE n > 1) y ON x.a = y.n"
        ctes.append(f"q{i + 1} AS (SELECT x.a, x.n + COALESCE(y.n, 0) AS n {join})")
    return f"WITH {', '.join(ctes)} SELECT a, n FROM q{steps} UNION ALL SELECT n, a FROM q{steps}"


LONG = {
    "40 steps, each read twice": stacked(40),
    "a sum of 1100 terms": f"SELECT SUM({' + '.join(['a'] * 1100)}) AS s FROM R",
    "1100 aggregates": f"SELECT {' + '.join(['SUM(a)'] * 1100)} AS s FROM R",
    "1100 conditions on groups": "SELECT a FROM R GROUP BY a HAVING "
    + " AND ".join(f"COUNT(*) > {i}" for i in range(1100)),
    "1100 branches": " UNION ".join(["SELECT a FROM R"] * 1100),
    "1100 differences": " EXCEPT ALL ".join(["SELECT a FROM R"] * 1100),
    "400 levels of groups": nested(400),
    "30 outer joins": "SELECT x0.a FROM R x0 "
    + " ".join(f"LEFT JOIN R x{i} ON x{i - 1}.b = x{i}.a" for i in range(1, 31)),
}


@every(LONG)
def test_a_long_query_has_a_program(name: str) -> None:
    start = time.monotonic()
    made = program(LONG[name], SCHEMA)
    assert time.monotonic() - start < 30
    again = Program.from_json(json.dumps(made.to_json()))
    assert again == made
    assert again.fingerprint == made.fingerprint
    assert str(again)


def test_set_operations_nested_in_earnest_are_refused_with_their_place() -> None:
    query = "SELECT a FROM R"
    for i in range(150):
        query = f"SELECT a FROM R {'UNION' if i % 2 else 'EXCEPT'} ({query})"
    with pytest.raises(PlanError, match="nested more than 100 deep") as caught:
        program(query, SCHEMA)
    assert caught.value.position is not None
