"""Every aggregate that groups have stands over a frame, whose values it reads: DuckDB has the same, row by row."""

from __future__ import annotations

import math

import pytest

import crown
import plans
from tests.marks import every
from tests.programs.streamed import SCHEMA, check

AGGREGATES = (
    "COUNT(DISTINCT s)", "SUM(DISTINCT b)", "AVG(DISTINCT b)", "MEDIAN(b)", "QUANTILE_DISC(b, 0.3)",
    "QUANTILE_CONT(b, [0.25, 0.5])", "MEDIAN(b::DECIMAL(10, 2))", "BIT_AND(b)", "BIT_OR(b)", "BIT_XOR(b)",
    "STRING_AGG(s, '-' ORDER BY id, s)", "LIST(id * 2 ORDER BY b DESC NULLS LAST, id)", "LIST(DISTINCT b ORDER BY b)",
    "STRING_AGG(DISTINCT s, ',' ORDER BY s) FILTER (WHERE id > 0)", "MAX_BY(s, 100 * id + 10 * a + b)",
    "ARG_MIN(b, b)", "COUNT(DISTINCT b) FILTER (WHERE s = 'a')", "MODE(a) FILTER (WHERE a = 1)", "BOOL_AND(b > 0)",
    "AVG(b::DECIMAL(10, 2))", "ANY_VALUE(a) FILTER (WHERE a = 1)", "SKEWNESS(b)",
    "FIRST(b ORDER BY id DESC, a, b, s)", "MAX_BY(s, 100 * id + 10 * a + b, 2)", "MAX(b, 2) FILTER (WHERE id > 0)",
    "COUNT_IF(b > 0)", "COUNT_IF(b > 0) FILTER (WHERE id > 1)", "CORR(b, id)", "REGR_SLOPE(id, b)",
)  # fmt: skip
FRAMES = (
    "PARTITION BY a ORDER BY id",
    "ORDER BY id DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
    "PARTITION BY a ORDER BY b NULLS FIRST GROUPS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP",
    "ORDER BY id, a, b, s ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING",
)  # fmt: skip


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_aggregate_over_frames_is_that_of_duckdb_after_every_batch(aggregate: str) -> None:
    values = ", ".join(f"{aggregate} OVER ({frame}) AS v{i}" for i, frame in enumerate(FRAMES))
    check("duckdb", f"SELECT id, a, b, s, {values} FROM (SELECT DISTINCT id, a, b, s FROM r) AS q", "", 1)


ALL_BUT = (
    "ORDER BY id, a, b, s ROWS UNBOUNDED PRECEDING",
    "PARTITION BY a ORDER BY b DESC NULLS LAST",
    "ORDER BY id, a, b, s ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
    "PARTITION BY s ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "PARTITION BY a ORDER BY b DESC, id, s ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "ORDER BY b NULLS FIRST GROUPS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING",
)
BOTH = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"


@pytest.mark.parametrize(
    "aggregate",
    ["COUNT(DISTINCT s)", "SUM(DISTINCT b)", "AVG(DISTINCT b) FILTER (WHERE s = 'a')", "COUNT(DISTINCT nums)"],
)
def test_different_values_up_to_a_row_are_those_of_duckdb_also_of_rows_with_copies(aggregate: str) -> None:
    values = ", ".join(f"{aggregate} OVER ({frame}) AS v{i}" for i, frame in enumerate(ALL_BUT))
    check("duckdb", f"SELECT id, a, b, s, {values} FROM r", "", 1)
    values = ", ".join(f"{aggregate} OVER (ORDER BY id, a, b, s ROWS {frame}) AS v{i}" for i, frame in enumerate(BOTH))
    check("duckdb", f"SELECT id, a, b, s, {values}, COUNT(DISTINCT id) OVER (ORDER BY id, a, b, s) AS w FROM r", "", 2)


@pytest.mark.parametrize("aggregate", ["COUNT(DISTINCT x)", "SUM(DISTINCT x)"])
def test_a_change_of_different_values_up_to_a_row_costs_the_rows_up_to_the_next_one_with_its_value(
    aggregate: str,
) -> None:
    query = f"SELECT i, x, {aggregate} OVER (ORDER BY i) AS n FROM r"
    for n in (500, 4_000, 32_000):
        view = crown.view(query, {"r": {"i": "int64", "x": "int64"}})
        view.update({"r": {"i": [10 * i for i in range(n)], "x": [i % 50 for i in range(n)]}})
        for at in (0, n // 2, n):
            assert len(view.apply({"r": [{"i": 10 * at + 1, "x": 7}]})) <= 101
        before = _steps(view)
        for at in range(1, 101):
            assert len(view.apply({"r": [{"i": 10 * (n - at) - 1, "x": 7}]})) == 1
        assert _steps(view) - before <= 100 * (30 * math.log2(n) + 100)
        behind = sum(row["i"] > 0 for row in view)
        assert len(view.apply({"r": [{"i": 1, "x": n}]})) == 2 * behind + 1


def _steps(view: crown.View) -> int:
    return sum(stage.get("steps", 0) for stage in view.stats()["stages"])


def test_aggregates_of_groups_without_values_or_variance_are_those_of_duckdb() -> None:
    values = ", ".join(f"{one} AS v{i}" for i, one in enumerate(("COUNT_IF(b > 0)", "CORR(b, a)", "REGR_SLOPE(b, id)")))
    check("duckdb", f"SELECT a, {values}, COUNT_IF(s > 'a') FILTER (WHERE id > 1) AS w FROM r GROUP BY a", "", 1)
    check("duckdb", f"SELECT {values}, COUNT_IF(b > 0) FILTER (WHERE id > 2) + 1 AS w FROM r", "", 1)


def test_first_values_of_a_window_in_its_order() -> None:
    query = "SELECT id, groupArray(2)(id) OVER (PARTITION BY a ORDER BY id DESC) AS v FROM r"
    view = crown.view(query, {"r": {"id": "int64", "a": "int64"}}, dialect="clickhouse")
    view.update({"r": [(1, 1), (2, 1), (3, 1), (4, 2)]})
    assert {row["id"]: row["v"] for row in view} == {1: [3, 2], 2: [3, 2], 3: [3], 4: [4]}


def test_lists_without_an_order_are_in_that_of_their_window() -> None:
    over = "OVER (ORDER BY b DESC, id, a, s ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    values = f"STRING_AGG(s, '-') {over} AS v, LIST(id) {over} AS w, LIST(DISTINCT id ORDER BY id) {over} AS x"
    check("duckdb", f"SELECT id, a, b, s, {values} FROM (SELECT DISTINCT id, a, b, s FROM r) AS q", "", 1)


def test_the_commonest_value_of_a_frame_is_the_least_of_several() -> None:
    view = crown.view(
        "SELECT x, MODE(s) OVER (ORDER BY x ROWS 3 PRECEDING) AS m FROM r", {"r": {"x": "int64", "s": "string"}}
    )
    view.update({"r": {"x": [1, 2, 3, 4, 5, 6], "s": ["b", "a", None, "b", "c", "c"]}})
    assert [row["m"] for row in sorted(view, key=lambda row: row["x"])] == ["b", "a", "a", "b", "a", "c"]
    view.update({"r": [{"x": 2, "s": "a", "_weight": -1}]})
    assert [row["m"] for row in sorted(view, key=lambda row: row["x"])] == ["b", "b", "b", "b", "c"]


def test_distinct_doubles_of_any_size_are_summed_exactly() -> None:
    query = "SELECT x, SUM(DISTINCT d) OVER (ORDER BY x ROWS 2 PRECEDING) AS s FROM r"
    view = crown.view(query, {"r": {"x": "int64", "d": "float64"}})
    view.update({"r": {"x": [1, 2, 3, 4, 5], "d": [1e300, 1.0, 1e300, -1e300, 0.5]}})
    assert [row["s"] for row in sorted(view, key=lambda row: row["x"])] == [1e300, 1e300, 1e300, 1.0, 0.5]


def test_a_sum_of_different_values_that_leaves_its_type_refuses_its_batch() -> None:
    view = crown.view("SELECT SUM(DISTINCT x) OVER (ORDER BY x) AS s FROM r", {"r": {"x": "int64"}})
    view.update({"r": {"x": [2**62]}})
    with pytest.raises(crown.ChangeError, match=r"the window function SUM\(x\): the sum is no int64"):
        view.update({"r": {"x": [2**62 - 1, 2**62 - 2]}})
    assert list(view) == [{"s": 2**62}]


@every(
    [
        ("COUNT(DISTINCT x) OVER (ORDER BY k ROWS 2 PRECEDING)", "COUNT(DISTINCT o2) over ROWS"),
        ("MEDIAN(x) OVER (ORDER BY k ROWS 2 PRECEDING)", "PERCENTILE(o2, 0.5) over ROWS"),
        ("STRING_AGG(s, '; ' ORDER BY x DESC) OVER (ORDER BY k)", "STRING_AGG(o2, '; ' ORDER BY o3 DESC) over RANGE"),
    ]
)
def test_explain_shows_what_is_read_of_a_frame_and_what_that_costs(call: str, shown: str) -> None:
    found = str(plans.program(f"SELECT {call} AS v FROM r", {"r": {"k": "int64", "x": "int64", "s": "string"}}))
    assert shown in found
    assert "are read again" in " ".join(found.split())


@every(
    [
        (
            "clickhouse",
            "SELECT quantileExact(0.5)(b) OVER (ORDER BY id) AS q FROM r",
            "window function QUANTILEEXACT is",
        ),
        (
            "duckdb",
            "SELECT FIRST(DISTINCT s ORDER BY id) AS f FROM r",
            "with DISTINCT, FIRST must be ordered by its argument",
        ),
        ("duckdb", "SELECT ANY_VALUE(DISTINCT s ORDER BY id) AS f FROM r", "ANY_VALUE must be ordered by its argument"),
        (
            "duckdb",
            "SELECT x FROM r, LATERAL (SELECT DISTINCT x FROM UNNEST(nums) AS u(x)) AS t",
            "DISTINCT in a subquery",
        ),
        ("duckdb", "SELECT x FROM r, LATERAL (SELECT x FROM UNNEST(nums) AS u(x) GROUP BY x) AS t", "GROUP BY in a"),
        (
            "duckdb",
            "SELECT x FROM r, LATERAL (SELECT x FROM UNNEST(nums) AS u(x) OFFSET 1) AS t",
            "OFFSET in a subquery",
        ),
    ]
)
def test_what_is_refused_is_named_as_it_is_written(dialect: str, query: str, said: str) -> None:
    with pytest.raises(plans.PlanError, match=said):
        plans.program(query, SCHEMA, dialect=dialect)
