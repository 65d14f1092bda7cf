"""Recursions in the benchmark: queries agree with DuckDB after deletes, and streams are what they say."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bench.cases.recursion import RECURSIONS
from bench.cases.workloads import Loaded, load
from bench.harness.measure import measure
from bench.harness.oracle import expectation
from bench.harness.sections.catalogue import SECTIONS
from bench.report.sections import native
from bench.report.tables import losses
from bench.subjects.peers import foreign
from bench.subjects.view import PublicView
from tests.bench.small import deletes_find_their_rows, follow

SMALL = {"vertices": 300, "edges": 1_500, "nodes": 60, "window": 150, "rows": 80, "prefix": 300}


def loaded(name: str, **more: Any) -> Loaded:
    return load(name, "generated", SMALL | more)


@pytest.mark.parametrize("name", RECURSIONS)
def test_the_view_agrees_with_duckdb_after_inserts_and_deletes(name: str) -> None:
    one = loaded(name)
    assert (one.stream.weight[: one.first] > 0).all()
    assert (one.stream.weight[one.first :] < 0).sum() > 50
    deletes_find_their_rows(one.stream)
    assert follow(PublicView(one, "delta"), one, 40) > 30


def test_a_graph_is_that_between_its_busiest_nodes_and_has_its_starts_and_its_window_first() -> None:
    one = loaded("rec-reach-100", prefix=0)
    starts, edges = (one.stream.tables[name] for name in ("S", "G"))
    assert len(set(starts.column("v").to_pylist())) == starts.num_rows
    assert set(starts.column("v").to_pylist()) <= set(edges.column("src").to_pylist())
    assert one.first == starts.num_rows + SMALL["window"]
    assert len(one.stream) == starts.num_rows + 2 * edges.num_rows
    assert f"{edges.num_rows:,} edges of generated" in one.stream.title
    whole = load("rec-reach-100", "generated", SMALL | {"nodes": 0, "prefix": 0}).stream.tables["G"]
    degrees = np.bincount(np.concatenate([column.to_numpy() for column in whole.columns]), minlength=300)
    kept = np.unique(np.concatenate([column.to_numpy() for column in edges.columns]))
    assert len(kept) <= SMALL["nodes"]
    assert degrees[kept].min() >= np.sort(degrees)[-SMALL["nodes"]]
    (only,) = loaded("rec-reach").stream.tables["S"].column("v").to_pylist()
    assert only == np.bincount(edges.column("src").to_numpy()).argmax()


def test_folders_stay_at_their_depth_so_the_result_stays_as_large_as_it_is() -> None:
    one = loaded("rec-folders", prefix=0)
    nodes = SMALL["rows"]
    assert (one.first, len(one.stream)) == (nodes - 1, nodes - 1 + 2 * nodes)
    depths = []
    for position in range(one.first, len(one.stream) + 1, 2):
        parents = dict(
            zip(*(one.stream.alive(position)["T"].column(c).to_pylist() for c in ("id", "parent")), strict=True)
        )
        assert set(parents) == set(range(1, nodes))
        depths.append([depth(node, parents) for node in range(nodes)])
    assert all(before == after for before, after in pairwise(depths))


def depth(node: int, parents: dict[int, int]) -> int:
    steps = 0
    while node:
        node, steps = parents[node], steps + 1
    return steps


def test_what_is_loaded_first_is_no_part_of_the_updates_that_count() -> None:
    one = loaded("rec-closure", prefix=300)
    spec = {"workload": "rec-closure", "data": "generated", "options": SMALL, "batch_rows": 10, "mode": "delta"}
    spec |= {"check": expectation("rec-closure", "generated", SMALL), "counted_as_elsewhere": True}
    found = measure(spec, lambda given: PublicView(given, "delta"), lambda done, of: None)
    assert (found["status"], found["check"]["status"]) == ("ok", "passed"), found
    assert found["of"] == found["updates"] == 300 - foreign.warm_rows(300)
    assert foreign.warm_rows(len(one.stream), one.first) == one.first + foreign.warm_rows(300)


def test_every_recursion_is_measured_in_two_sizes_beside_every_engine() -> None:
    cells = SECTIONS["recursion"]("normal")
    for name in RECURSIONS:
        mine = [cell for cell in cells if cell["workload"] == name]
        assert {cell["batch_rows"] for cell in mine} >= {10, 1_000}
        for rows in {cell["batch_rows"] for cell in mine}:
            engines = [cell["engine"] for cell in mine if cell["batch_rows"] == rows]
            assert engines == ["crown-view", "crown-view", "dd", "dbsp", "duckdb-recompute"]
    assert all(cell["one_core"] and cell["counted_as_elsewhere"] for cell in cells)
    assert {cell["workload"] for cell in SECTIONS["recursion"]("quick")} == set(RECURSIONS)


def test_a_faster_engine_is_told_and_stands_beside_ours_with_its_data() -> None:
    cells = []
    for engine, rate in (("crown-view", 2e6), ("dd", 4e6), ("duckdb-recompute", 1e6)):
        rates = {"updates_per_s": rate, "updates_per_s_median": rate, "repeats": 1, "status": "ok", "data": "a graph"}
        what = {"workload": "rec-reach", "title": "Reach", "mode": "delta", "law": "batch", "x": 10, "batch_rows": 10}
        cells.append({"engine": engine, "engine_title": engine} | rates | what)
    shown = native.recursions(cells)
    assert not {"CROWN with Arrow, times", "added by the run"} & set(shown.headings)
    times = shown.headings.index("CROWN, times")
    assert [(row[0], row[1], row[times]) for row in shown.rows] == [
        ("Reach", "a graph", "–"), ("Reach", "a graph", "x 0.50"), ("Reach", "a graph", "x 2.00"),
    ]  # fmt: skip
    ((query, setting, engine, *_),) = losses({"recursion": {"cells": cells}}).rows
    assert (query, setting, engine) == ("Reach", "batch 10", "dd")
