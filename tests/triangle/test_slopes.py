"""Complexity claims by counting: slopes of operations, space and delay on adversarial instances, and amortization."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.cases import triangles as instances
from bench.cases.streams import windowed
from bench.cases.triangles import UPDATES
from bench.harness import results
from bench.report import tables
from bench.report.parts import PARTS
from bench.subjects.triangle.plain import PlainCount
from bench.subjects.triangle.slopes import delays, operations, slope, space
from bench.subjects.triangle.speed import apply, rows_of
from ivm_triangle import Triangle
from tests.triangle.oracles import random_stream

HARD = ("two_lists", "hub_wall", "light_wall", "oumv", "cube")
ROOT_N = {"single": {"strategy": "eps"}, "double": {"strategy": "eps", "partition": "double"}, "sit": {}}


@pytest.mark.parametrize("name", [*HARD, "sit_wall"])
@pytest.mark.parametrize("rotation", [0, 1, 2])
@pytest.mark.parametrize("program", ROOT_N)
def test_the_count_takes_at_most_root_n(name, rotation, program):
    _, make, sizes = UPDATES[name]
    points, _ = operations(make, sizes[:4], rotation, **ROOT_N[program])
    assert slope(points) <= 0.55
    if name != "oumv":
        assert all(ops <= 16 * np.sqrt(2 * size + 1) + 32 for size, ops in points)


@pytest.mark.parametrize("outputs", ["a", "ab", "abc"])
@pytest.mark.parametrize("name", HARD)
def test_free_variables_cost_no_more(outputs, name):
    _, make, sizes = UPDATES[name]
    assert slope(operations(make, sizes[:4], outputs=outputs, strategy="eps")[0]) <= 0.55


@pytest.mark.parametrize("name", ["two_lists", "hub_wall"])
@pytest.mark.parametrize("rotation", [0, 1, 2])
def test_first_order_maintenance_is_linear_there(name, rotation):
    _, make, sizes = UPDATES[name]
    assert slope(operations(make, sizes[:4], rotation, strategy="classical")[0]) >= 0.9


@pytest.mark.parametrize("outputs", ["", "abc"])
@pytest.mark.parametrize(
    ("rates", "gain"),
    [((50, 1, 1), 0.55), ((1, 50, 1), 0.55), ((1, 1, 50), 0.55), ((20, 20, 1), 1.02), ((1, 1, 1), 1.0)],
)
def test_thresholds_that_follow_the_rates_pay_where_updates_are_one_sided(outputs, rates, gain):
    load, updates = instances.rated_walls(64, rates, 5000)
    steps, thetas = {}, {}
    for epsilon in (0.5, "auto"):
        triangle = Triangle(outputs, epsilon, strategy="eps")
        triangle.apply_codes(load)
        triangle.replay_codes(updates[:2500])
        before = triangle.stats()
        triangle.replay_codes(updates[2500:])
        after = triangle.stats()
        steps[epsilon] = after["operations"] - before["operations"]
        thetas[epsilon] = after["theta"]
        assert after["major_rebalancings"] <= 2
        triangle.check_invariants()
    assert steps["auto"] <= gain * steps[0.5]
    assert (thetas["auto"] == thetas[0.5]) == (rates == (1, 1, 1))
    root = np.sqrt(after["N"])
    assert all(root / 8 <= theta <= 8 * root for theta in thetas["auto"].values())


@pytest.mark.parametrize("epsilon", [0.25, 0.4, 0.5, 0.6, 0.75])
def test_the_exponent_is_the_larger_of_eps_and_one_minus_eps(epsilon):
    """Of single partitions it is attained on the wall; of double ones it is an upper bound."""
    slopes = {
        partition: slope(
            operations(
                lambda n: instances.wall(n, epsilon),
                (4000, 9000, 16000, 36000, 64000),
                epsilon=epsilon,
                strategy="eps",
                partition=partition,
            )[0]
        )
        for partition in ("single", "double")
    }
    bound = max(epsilon, 1 - epsilon)
    assert slopes["single"] == pytest.approx(bound, abs=0.06)
    assert slopes["double"] <= bound + 0.06


def test_delays():
    sizes = (32, 48, 64, 96)
    assert slope(delays(instances.delay_pairs, sizes, "ab")) <= 0.55
    assert 0.9 <= slope(delays(instances.delay_values, sizes, "a")) <= 1.05
    for make in (instances.delay_pairs, instances.delay_values):
        points = delays(make, sizes, "abc")
        assert abs(slope(points)) < 0.01
        assert max(steps for _, steps in points) <= 8


def test_space():
    sizes = (32, 48, 64, 96, 128)
    single = space(instances.space_wall, sizes, strategy="eps")
    assert [entries for _, entries in single["entries"]] == pytest.approx(
        [(2 * n) ** 1.5 / 32 for n, _ in single["entries"]]
    )
    for options in (ROOT_N["double"], ROOT_N["sit"]):
        linear = space(instances.space_wall, sizes, **options)
        assert slope(linear["bytes"]) <= 1.05
        assert not any(entries for _, entries in linear["entries"])
        assert space(instances.star, (3000,), **options)["entries"][0][1] == 0


@pytest.mark.parametrize("program", ROOT_N)
@pytest.mark.parametrize("name", ["thrash", "grow_shrink", "zipf", "cube"])
def test_rebalancing_is_amortized(program, name):
    _, make, sizes = UPDATES[name]
    points, stats = operations(make, sizes[:4], **ROOT_N[program])
    assert slope(points) <= 0.55
    assert stats["tuples_moved"] <= (3 if program == "single" else 6) * stats["presence_flips"]


@pytest.mark.parametrize("program", ROOT_N)
def test_a_quarter_of_n_updates_lie_between_major_rebalancings(program):
    triangle = Triangle(**ROOT_N[program])
    since = majors = base = 0
    _, updates = instances.grow_shrink(1500, 2)
    for row in updates:
        triangle.replay_codes(row.reshape(1, 4))
        stats = triangle.stats()
        assert stats["N"] // 4 <= stats["size"] < stats["N"]
        if stats["major_rebalancings"] > majors:
            assert since >= base / 4 - 1 or base <= 8
            majors, since, base = stats["major_rebalancings"], 0, stats["N"]
        else:
            since += 1
    assert majors > 10


@pytest.mark.parametrize("outputs", ["a", "ab", "abc"])
def test_large_results_come_once_each_through_many_hops(outputs):
    triangle = Triangle(outputs, strategy="eps")
    rows = instances.delay_pairs(32) if outputs == "ab" else instances.delay_values(32)
    triangle.apply_codes(rows)
    for k, x, y, m in random_stream(3, 200, 12, deletes=0.0):
        triangle.replay_codes(np.array([(k, x, y, m)]))
    seen = [tuple(row.values()) for batch in triangle.results() for row in batch.to_pylist()]
    assert len({row[:-1] for row in seen}) == len(seen)
    count = Triangle()
    count.apply_codes(rows)
    for k, x, y, m in random_stream(3, 200, 12, deletes=0.0):
        count.replay_codes(np.array([(k, x, y, m)]))
    assert sum(row[-1] for row in seen) == count.count()
    triangle.check_invariants()


def test_the_page_draws_its_tables_from_data():
    folder = Path(__file__).parents[2] / "docs"
    page = (folder / "triangle.md").read_text()
    measured = results.read(folder / "triangle")
    for part in PARTS:
        if part.section in measured:
            for make in part.tables:
                assert tables.markdown(make(measured[part.section]["cells"])) in page
    assert {"triangle-speed", "triangle-slopes"} <= set(measured)
    for picture in re.findall(r"\]\((triangle/.*?\.svg)\)", page):
        assert (folder / picture).is_file()


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "triangle.md").read_text()
    exec(page.split("```python")[1].split("```")[0], {"print": lambda *_: None})


def test_the_speed_baseline_counts_what_we_count():
    edges = np.unique(np.random.default_rng(3).integers(0, 15, (120, 2)), axis=0)
    edges = np.random.default_rng(4).permutation(edges)
    stream = windowed("", "G", pa.table({"src": edges[:, 0], "dst": edges[:, 1]}), 0.2)
    stream = stream.head(len(stream) - int(0.2 * len(edges)))
    counters = [(Triangle(), 3, None), (Triangle(edges="E"), 1, None), (Triangle(), 3, 30)]
    counters += [(PlainCount(3), 3, None), (PlainCount(1), 1, None)]
    for counter, copies, batch in counters:
        apply(counter, rows_of(stream, copies), batch)
    assert len({counter.count() for counter, _, _ in counters}) == 1
    assert counters[0][0].count() > 0
    assert counters[0][0].stats()["size"] == 3 * int(0.2 * len(edges))
