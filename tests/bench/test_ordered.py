"""Rows in order in the benchmark: queries agree with DuckDB after deletes, and the report says how cost grows."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cases.ordered import FINANCE, ORDERED, OVER
from bench.cases.workloads import load
from bench.harness.sections.catalogue import SECTIONS
from bench.report.sections import ordered
from bench.subjects.peers import foreign
from bench.subjects.view import PublicView
from tests.bench.small import follow


@pytest.mark.parametrize("name", ORDERED)
def test_the_view_agrees_with_duckdb_after_inserts_and_deletes(name: str) -> None:
    loaded = load(name, None, {"rows": 60})
    assert (loaded.stream.weight < 0).any()
    assert follow(PublicView(loaded, "delta"), loaded, 40) > 0


def measured(engine: str, rows: int, rate: float, **more: Any) -> dict[str, Any]:
    work = {"steps": 30 * 1_000} if engine == "crown-view" else {}
    return {
        "engine": engine, "workload": "ord-mst", "title": "MST", "mode": "delta", "x": rows, "batch_rows": 1_000,
        "updates_per_s": rate, "updates_per_s_median": rate, "updates_per_s_all": [rate], "repeats": 1,
        "updates": 1_000, "work": work, "status": "ok", "check": {},
    } | more  # fmt: skip


def test_a_slope_is_that_of_the_cost_on_the_rows() -> None:
    cells = [measured("crown-view", rows, 1e6) for rows in (1_000, 10_000)]
    cells += [measured("duckdb-recompute", rows, 1e8 / rows) for rows in (1_000, 10_000)]
    cells += [measured("crown-view", 10_000, 9e9, batch_rows=10_000)]
    ((title, steps, slope, micros, flat, theirs, steep),) = ordered.growth(cells).rows
    assert (title, steps, micros) == ("MST", "1 K: 30, 10 K: 30", "1 K: 1, 10 K: 1")
    assert (abs(float(slope)), abs(float(flat)), theirs, steep) == (0, 0, "1 K: 10, 10 K: 100", "1.00")
    assert "<svg" in ordered.curves(cells)
    assert ordered.curves(cells[:1]) == ""
    assert ordered.growth(cells[:1]).rows == []


def test_others_stand_in_the_row_of_ours_or_the_reason_why_they_do_not() -> None:
    cells = [measured("crown-view", 1_000, 3e6), measured("duckdb-recompute", 1_000, 1e6)]
    cells.append({"engine": "flink", "workload": "ord-mst", "x": 1_000, "batch_rows": 0, "reason": "no such window"})
    (row,) = ordered.rates(cells).rows
    assert row[7:10] == ("1 M, x 3.00", "–", "no such window")


def test_every_query_is_measured_at_two_sizes_and_beside_others_where_they_have_the_operator() -> None:
    cells = SECTIONS["ordered"]("normal")
    sizes: dict[tuple[str, str], set[int]] = {}
    for cell in cells:
        sizes.setdefault((cell["engine"], cell["workload"]), set()).add(cell["x"])
    assert {name for engine, name in sizes if engine == "crown-view"} == set(ORDERED) >= {*FINANCE, *OVER}
    assert all(len(found) > 1 for (engine, _), found in sizes.items() if engine != "duckdb-recompute")
    assert {name for engine, name in sizes if engine == "flink"} == set(OVER)


def test_what_is_loaded_first_is_no_part_of_the_time_of_engines_elsewhere() -> None:
    assert foreign.warm_rows(1_000_000) == foreign.WARM_ROWS
    assert foreign.warm_rows(109_000, 100_000) == 100_900
