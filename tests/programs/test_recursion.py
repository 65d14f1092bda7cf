"""Recursions: the stage beside its readable twin, the least fixed point by brute force, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import pytest

import crown
import plans
from crown.errors import ChangeError
from crown.stages import fixpoint
from crown.stages.fixpoint import Fixpoint
from crown.stages.kernels.recursions import COUNT, FOUNDED, STAMP
from plans.programs.stages import FixpointStage, GroupStage
from tests.marks import every, slow
from tests.models.fixpoint import ReferenceFixpoint, Row

SCHEMA = {"e": {"x": "int64", "y": "int64"}, "n": {"x": "int64"}}
Edges = Counter[tuple[int, int]]
PATHS = "WITH RECURSIVE p AS (SELECT x, y FROM e UNION SELECT p.x, e.y FROM p JOIN e ON p.y = e.x) SELECT x, y FROM p"
DOUBLED = "P(x, y) :- e(x, y). P(x, z) :- P(x, y), P(y, z)."
SAME = "SG(x, y) :- e(p, x), e(p, y). SG(x, y) :- e(p, x), SG(p, q), e(q, y)."
BACK = "P(x, y) :- e(x, y). P(x, z) :- P(x, y), e(y, z). P(y, x) :- P(x, y), x > y."


def paths(edges: Edges, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    for edge, copies in edges.items():
        yield from [(edge, 0)] * copies
    for (x, y), stamp in there.items():
        for (z, w), copies in edges.items():
            yield from [((x, w), stamp)] * copies if y == z else ()


def doubled(edges: Edges, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    yield from ((edge, 0) for edge in edges)
    for (x, y), one in there.items():
        yield from (((x, w), max(one, other)) for (z, w), other in there.items() if y == z)


def same(edges: Edges, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    above: dict[int, list[int]] = {}
    for p, x in edges:
        above.setdefault(p, []).append(x)
    found = {(x, y): 0 for below in above.values() for x in below for y in below}
    yield from found.items()
    derived = {((x, y), stamp) for (p, q), stamp in there.items() for x in above.get(p, ()) for y in above.get(q, ())}
    yield from derived


def back(edges: Edges, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    yield from ((edge, 0) for edge in edges)
    yield from {((x, w), stamp) for (x, y), stamp in there.items() for z, w in edges if y == z}
    yield from (((y, x), stamp) for (x, y), stamp in there.items() if x > y)


WEIGHED = {"s": {"x": "int64"}, "e": {"x": "int64", "y": "int64", "w": "int64"}}
NEAREST = "D(x, min(0)) :- s(x). D(y, min(d + w)) :- D(x, d), e(x, y, w)."
LABELS = "C(x, max(x)) :- s(x). C(y, max(c)) :- C(x, c), e(x, y, _). C(x, max(c)) :- C(y, c), e(x, y, _)."
PAIRS = "P(x, y, min(w)) :- e(x, y, w). P(x, z, min(a + b)) :- P(x, y, a), P(y, z, b)."
BOUNDED = "D(x, min(0)) :- s(x). D(y, min(d + w)) :- D(x, d), e(x, y, w), d < 7."
VIA = "D(x, min(0), min_by(x, 0)) :- s(x). D(y, min(d + w), min_by(x, d + w)) :- D(x, d, _), e(x, y, w)."
BEFORE = """WITH RECURSIVE p (x, d, via) AS (SELECT x, MIN(d), MIN_BY(via, d) FROM (
  SELECT x, CAST(0 AS BIGINT) AS d, x AS via FROM s UNION ALL
  SELECT e.y, p.d + e.w, p.x FROM p JOIN e ON e.x = p.x) q GROUP BY x) SELECT x, d, via FROM p"""
FARTHEST = """WITH RECURSIVE p (x, d, start, via) AS (SELECT x, MAX(d), MAX_BY(start, d), MAX_BY(via, d) FROM (
  SELECT x, CAST(9 AS BIGINT) AS d, x AS start, x AS via FROM s UNION ALL
  SELECT e.y, p.d - 1 - e.w, p.start, p.x FROM p JOIN e ON e.x = p.x WHERE e.w IS NOT NULL AND p.d > 1) q GROUP BY x)
SELECT x, d, start, via FROM p"""
Weighed = tuple[set[int], set[tuple[int, int, int]]]


def nearest(tables: Weighed, there: Mapping[Row, int], bound: int = 1 << 40) -> Iterator[tuple[Row, int]]:
    yield from (((x, 0), 0) for x in tables[0])
    for (n, d), stamp in there.items():
        yield from {((y, d + w), stamp) for x, y, w in tables[1] if x == n and d < bound}


def bounded(tables: Weighed, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    return nearest(tables, there, 7)


def labels(tables: Weighed, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    yield from (((x, x), 0) for x in tables[0])
    for (n, c), stamp in there.items():
        yield from {((y, c), stamp) for x, y, _ in tables[1] if x == n}
        yield from {((x, c), stamp) for x, y, _ in tables[1] if y == n}


def before(tables: Weighed, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    yield from (((x, 0, x), 0) for x in tables[0])
    for (n, d, _), stamp in there.items():
        yield from {((y, d + w, n), stamp) for x, y, w in tables[1] if x == n}


def farthest(tables: Weighed, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    yield from (((x, 9, x, x), 0) for x in tables[0])
    for (n, d, start, _), stamp in there.items():
        yield from {((y, d - 1 - w, start, n), stamp) for x, y, w in tables[1] if x == n and d > 1}


def pairs(tables: Weighed, there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    yield from ((edge, 0) for edge in tables[1])
    for (x, y, a), one in there.items():
        yield from (((x, w, a + b), max(one, other)) for (z, w, b), other in there.items() if y == z)


@pytest.mark.parametrize("batches", [40, slow(400)])
@pytest.mark.parametrize(
    ("query", "derive", "sign", "picked"),
    [
        (NEAREST, nearest, 1, 0),
        (LABELS, labels, -1, 0),
        (PAIRS, pairs, 1, 0),
        (BOUNDED, bounded, 1, 0),
        (BEFORE, before, 1, 1),
        (VIA, before, 1, 1),
        (FARTHEST, farthest, -1, 2),
    ],
    ids=[
        "nearest",
        "labels",
        "pairs",
        "bounded",
        "the node before",
        "the same in Datalog",
        "the farthest start and the node before",
    ],
)
def test_min_and_max_have_the_rows_and_stamps_of_their_twin(
    query: str, derive: Any, sign: int, picked: int, batches: int
) -> None:
    random = Random(len(query))
    view, twin = crown.view(query, WEIGHED), ReferenceFixpoint(derive, sign, picked)
    starts, edges, total = set[int](), set[tuple[int, int, int]](), Counter[Row]()
    for number in range(batches):
        rows: dict[str, list[dict[str, int]]] = {"s": [], "e": []}
        for _ in range(1 if number % 3 else 6):
            if random.random() < 0.2:
                start = random.randrange(8)
                rows["s"].append({"x": start, "_weight": -1 if start in starts else 1})
                starts ^= {start}
            else:
                # a circle that adds nothing might choose between rows by itself
                edge = (random.randrange(8), random.randrange(8), random.randrange(5) + (picked > 0))
                edge = random.choice(sorted(edges)) if edges and random.random() < 0.5 else edge
                rows["e"].append({**dict(zip("xyw", edge, strict=True)), "_weight": -1 if edge in edges else 1})
                edges ^= {edge}
        delta = view.apply(rows)
        twin.update((starts, edges))
        assert {row: counts[STAMP] for row, counts in stored(fixpoint_of(view)).items() if counts[STAMP]} == twin.stamps
        for row in delta.to_pylist():
            weight = row.pop("_weight")
            total[tuple(row.values())] += weight
        assert {row for row, weight in total.items() if weight} == set(twin.stamps)
        assert set(total.values()) <= {0, 1}
        assert twin.stamps.keys() == least(derive, (starts, edges), twin.best)
        view._engine.check_invariants()


def fixpoint_of(view: crown.View) -> Fixpoint:
    return next(stage for stage in view._engine.stages if isinstance(stage, Fixpoint))


def stored(stage: Fixpoint) -> dict[Row, list[int]]:
    """The rows of a recursion, each with its counts."""
    blocks = [(rows.tolist(), counts.tolist()) for rows, counts in stage._rows.scan()]
    return {tuple(row): found for rows, counts in blocks for row, found in zip(rows, counts, strict=True)}


def changed(random: Random, edges: Edges, nodes: int, most: int) -> list[dict[str, int]]:
    """Changes some edges. Returns their changes."""
    rows = []
    for _ in range(random.randint(1, most)):
        there = [edge for edge, copies in sorted(edges.items()) if copies]
        if there and random.random() < 0.5:
            edge, sign = random.choice(there), -1
        else:
            edge, sign = (random.randrange(nodes), random.randrange(nodes)), 1
        edges[edge] += sign
        rows.append({"x": edge[0], "y": edge[1], "_weight": sign})
    for edge in [edge for edge, copies in edges.items() if not copies]:
        del edges[edge]
    return rows


@pytest.mark.parametrize("batches", [40, slow(400)])
@pytest.mark.parametrize(("query", "derive"), [(PATHS, paths), (DOUBLED, doubled), (SAME, same), (BACK, back)])
def test_the_stage_has_the_rows_and_stamps_of_its_twin(query: str, derive: Any, batches: int) -> None:
    random = Random(len(query))
    view, twin, edges = crown.view(query, SCHEMA), ReferenceFixpoint(derive), Edges()
    total = Counter[Row]()
    for number in range(batches):
        delta = view.apply({"e": changed(random, edges, 9, 1 if number % 3 else 6)})
        twin.update(edges)
        stage = fixpoint_of(view)
        found = stored(stage)
        assert {row: counts[STAMP] for row, counts in found.items()} == twin.stamps
        counts, founded = twin.counts(edges)
        if query == PATHS:  # a step of Datalog has every derivation once for each row that it reads
            assert {row: counts[COUNT] for row, counts in found.items()} == counts
            assert {row: counts[FOUNDED] for row, counts in found.items()} == founded
        for row in delta.to_pylist():
            weight = row.pop("_weight")
            total[tuple(row.values())] += weight
        assert {row for row, weight in total.items() if weight} == set(twin.stamps)
        assert set(total.values()) <= {0, 1}
        assert twin.stamps.keys() == least(derive, edges)
        view._engine.check_invariants()


def least(derive: Any, tables: Any, best: Callable[[set[Row]], set[Row]] = set) -> set[Row]:
    """The least fixed point, by brute force."""
    found: set[Row] = set()
    while (more := best(found | {row for row, _ in derive(tables, dict.fromkeys(found, 0))})) != found:
        found = more
    return found


def test_a_longer_way_is_found_when_the_shortest_one_is_deleted() -> None:
    view = crown.view(NEAREST, WEIGHED)
    view.update({"s": [(0,)], "e": [(0, 1, 1), (1, 2, 1), (0, 2, 5), (2, 1, 1), (2, 3, 1)]})
    assert {tuple(row.values()) for row in view} == {(0, 0), (1, 1), (2, 2), (3, 3)}
    delta = view.apply({"e": [{"x": 0, "y": 1, "w": 1, "_weight": -1}]})
    after = {tuple(row.values()) for row in delta.to_pylist() if row.pop("_weight") > 0}
    assert after == {(1, 6), (2, 5), (3, 6)}
    view.apply({"e": [{"x": 0, "y": 2, "w": 5, "_weight": -1}]})
    assert view.count() == 1, "1 and 2 reach each other only"
    assert view.stats()["stages"][0]["rows"] == 1


def test_a_recursion_with_min_costs_what_changes() -> None:
    """The last edge of a chain of n edges changes one distance, the first one all of them."""
    for n in (50, 400):
        view = crown.view(NEAREST, WEIGHED)
        view.update({"s": [(0,)], "e": {"x": np.arange(n), "y": np.arange(1, n + 1), "w": np.ones(n, np.int64)}})

        def steps(x: int, weight: int, view: crown.View = view) -> int:
            before = view.stats()["stages"][0]["steps"]
            view.apply({"e": [{"x": x, "y": x + 1, "w": 1, "_weight": weight}]})
            return int(view.stats()["stages"][0]["steps"]) - before

        assert steps(n - 1, -1) == 1
        assert steps(0, -1) == n - 1


def test_a_delete_in_a_circle_leaves_nothing_that_holds_only_itself() -> None:
    view = crown.view(PATHS, SCHEMA)
    view.update({"e": [(0, 1), (1, 2), (2, 3), (3, 1)]})
    delta = view.apply({"e": [{"x": 0, "y": 1, "_weight": -1}]})
    assert Counter(row["x"] for row in delta.to_pylist()) == {0: 3}
    assert view.count() == 9
    view.apply({"e": [{"x": x, "y": y, "_weight": -1} for x, y in ((1, 2), (2, 3), (3, 1))]})
    assert view.count() == 0
    assert view.stats()["stages"][0]["rows"] == 0


def test_what_has_another_derivation_stays_silently() -> None:
    view = crown.view(PATHS, SCHEMA)
    view.update({"e": [(0, 1), (1, 2), (0, 3), (3, 1)]})
    delta = view.apply({"e": [{"x": 0, "y": 1, "_weight": -1}]})
    assert delta.num_rows == 0, "0 still reaches 1 by 3"
    assert [view.multiplicity({"x": 0, "y": y}) for y in (1, 2, 9)] == [1, 1, 0]


def test_texts_of_rows_and_of_what_derives_them_outlive_a_sweep_of_the_dictionary() -> None:
    query = (
        "WITH RECURSIVE p AS (SELECT y, 'right after ' || x AS label FROM e UNION SELECT e.y, 'some time after ' || e.x"
        " FROM p JOIN e ON p.y = e.x) SELECT y, label FROM p"
    )
    view = crown.view(query, {"e": {"x": "string", "y": "string"}}, on_missing="trust")
    random, edges = Random(1), set[tuple[str, str]]()
    for number in range(30):
        if edges and number % 3 == 2:
            gone = set(random.sample(sorted(edges), len(edges) // 2))
            edges -= gone
            view.apply({"e": [{"x": x, "y": y, "_weight": -1} for x, y in gone]})
        new = {(f"the place {random.randrange(99)}", f"the place {random.randrange(99)}") for _ in range(4)} - edges
        edges |= new
        view.apply({"e": list(new)})
        view.compact()
        after = {y for _, y in edges}
        wanted = {(y, f"right after {x}") for x, y in edges}
        wanted |= {(y, f"some time after {x}") for x, y in edges if x in after}
        assert {tuple(row.values()) for row in view} == wanted


def test_a_count_in_the_first_rows_is_there_from_the_first_batch_on() -> None:
    counted = "WITH RECURSIVE p AS (SELECT COUNT(*) AS n FROM e UNION SELECT n - 1 FROM p WHERE n > 0) SELECT n FROM p"
    view = crown.view(counted, SCHEMA)
    assert view.apply({}).to_pylist() == [{"n": 0, "_weight": 1}]
    view.apply({"e": [(1, 2), (2, 3)]})
    assert sorted(row["n"] for row in view) == [0, 1, 2]


def test_what_a_recursion_reads_and_does_not_derive_is_maintained_once() -> None:
    view = crown.view(
        "WITH RECURSIVE c AS (SELECT x, COUNT(*) AS k FROM e GROUP BY x), p AS (SELECT x FROM c WHERE k > 1 UNION "
        "SELECT e.y FROM p JOIN e ON p.x = e.x JOIN c ON e.y = c.x) SELECT p.x, c.k FROM p JOIN c ON p.x = c.x",
        SCHEMA,
    )
    (recursion,) = (stage for stage in view._engine.plan.stages if isinstance(stage, FixpointStage))
    assert sum(isinstance(stage, GroupStage) for stage in (*view._engine.plan.stages, *recursion.stages)) == 1
    view.apply({"e": [(1, 2), (1, 3), (2, 4), (3, 3)]})
    assert {(row["x"], row["k"]) for row in view} == {(1, 2), (2, 1), (3, 1)}
    view.apply({"e": [{"x": 1, "y": 2, "_weight": -1}]})
    assert not list(view)


MIN_BY = (
    "WITH RECURSIVE p (x, d, via) AS (SELECT x, MIN(d), MIN_BY(via, d) FROM (SELECT x, 0 AS d, x AS via FROM s "
    "UNION ALL SELECT {} FROM p JOIN e ON e.x = p.x {}) GROUP BY x) SELECT x, d, via FROM p"
)
DEPENDS = "p has MIN, and a condition depends on via"
EQUAL = "p has MIN, and column via passes via on, and a better d may derive an equal value"


@every(
    [
        ("y, d + 1, p.x + 1", "", ""),
        ("y, GREATEST(d, 3), p.x", "WHERE d IS NOT NULL", ""),
        ("y, d + 1, via", "", ""),
        ("y, d - w, via", "WHERE w IS NOT NULL", ""),
        ("y, d + 1, via", "WHERE w IS NOT NULL AND d < 9", ""),
        ("y, d + w, via", "", EQUAL),
        ("y, d + CAST(CAST(w AS STRING) AS INT), via", "WHERE w IS NOT NULL", EQUAL),
        ("y, CAST(CAST(d AS BIGINT) + w AS INT), via", "WHERE w IS NOT NULL", EQUAL),
        ("y, GREATEST(d, 3), via", "WHERE d IS NOT NULL", EQUAL),
        ("y, 2 * d, via", "", EQUAL),
        ("y, 7, via", "", EQUAL),
        (
            "y, d + 1, via + 1",
            "",
            "p has MIN, and column via depends on via, and is not the same column of the same row",
        ),
        ("via, d + 1, p.x", "", "p has MIN, and column x depends on via"),
        ("y, d + via, p.x", "", "p has MIN, and column d depends on via"),
        ("y, d + 1, d", "", "p has MIN, and column via depends on d"),
        ("y, d + 1, p.x", "WHERE via < 3", DEPENDS),
        ("y, d + 1, p.x", "AND via < 3", DEPENDS),
    ]
)
def test_columns_of_the_best_row_are_passed_on_where_better_rows_derive_better_ones(
    outputs: str, where: str, sentence: str
) -> None:
    query = MIN_BY.format(outputs, where)
    if not sentence:
        assert plans.program(query, WEIGHED).stages
        return
    with pytest.raises(crown.PlanError) as refused:
        plans.program(query, WEIGHED)
    assert str(refused.value).startswith(sentence + " (line 1")
    which = "multiply it by a constant" if sentence.endswith("depends on d") else "each to the same column"
    assert which in str(refused.value)


def test_a_double_may_be_equal_after_a_sum() -> None:
    doubles = {**WEIGHED, "e": {**WEIGHED["e"], "w": "float64"}}
    query = MIN_BY.replace("0 AS d", "CAST(0 AS DOUBLE) AS d").format("y, d + w, {}", "WHERE w IS NOT NULL")
    assert plans.program(query.replace("{}", "p.x"), doubles).stages
    with pytest.raises(crown.PlanError, match="a better d may derive an equal value"):
        plans.program(query.replace("{}", "via"), doubles)


def test_rows_come_and_go_with_as_many_copies_as_they_have_derivations() -> None:
    query = PATHS.replace("UNION", "UNION ALL")
    view = crown.view(query, SCHEMA)
    view.update({"e": [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]})
    assert view.multiplicity({"x": 0, "y": 4}) == 2
    delta = view.apply({"e": [{"x": 2, "y": 3, "_weight": -1}]})
    assert {tuple(row.values()) for row in delta.to_pylist()} == {(2, 3, -1), (2, 4, -1), (0, 3, -1), (0, 4, -1)}


@every(
    [
        (PATHS.replace("UNION", "UNION ALL"), {"e": [(2, 1)]}),
        (PATHS.replace("UNION", "UNION ALL"), {"e": [(1, 2), (2, 1)]}),  # each round doubles the copies
        (
            "WITH RECURSIVE p AS (SELECT y AS x FROM e UNION SELECT x + 1 FROM p WHERE x > 2) SELECT x FROM p",
            {"e": [(3, 3)]},
        ),
        ("P(x, y, min(0)) :- e(x, y). P(x, z, min(d - 1)) :- P(x, y, d), e(y, z).", {"e": [(2, 1)]}),
        (
            "P(x, min(0), min_by(y, 0)) :- e(y, x), y = 1. P(z, min(d), min_by(y, d)) :- P(y, d, _), e(y, z).",
            {"e": [(2, 0), (0, 2)]},
        ),
    ]
)
def test_a_recursion_that_does_not_end_is_rejected_and_leaves_the_view_as_it_was(
    query: str, endless: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixpoint, "MOST_ROUNDS", 100)
    view = crown.view(query, SCHEMA)
    view.apply({"e": [(1, 2)]})
    before = list(view)
    with pytest.raises(ChangeError, match="does not end"):
        view.apply(endless)
    assert list(view) == before
    view._engine.check_invariants()
    delta = view.apply({"e": [{"x": 1, "y": 2, "_weight": -1}]})
    assert delta.num_rows == 1
    assert view.count() == 0


def test_a_change_costs_the_derivations_that_change_with_it() -> None:
    """An end of a chain of n edges has n paths; an edge far from it has one, whatever else there is."""
    for n in (50, 400):
        view = crown.view(PATHS, SCHEMA)
        view.update({"e": {"x": np.arange(n), "y": np.arange(1, n + 1)}})

        def steps(x: int, y: int, weight: int, view: crown.View = view) -> int:
            before = view.stats()["stages"][0]["steps"]
            view.apply({"e": [{"x": x, "y": y, "_weight": weight}]})
            return int(view.stats()["stages"][0]["steps"]) - before

        assert steps(0, 1, -1) == n
        assert steps(n - 1, n, -1) == n - 1
        assert steps(n + 5, n + 6, 1) == 1
        assert "steps" in view.explain(analyze=True)


STAFF = {"staff": {"id": "int64", "boss": "int64", "name": "string"}}
FORMS = [
    (
        "tsql",
        "WITH b AS (SELECT id, boss, 0 AS n FROM staff WHERE boss IS NULL UNION ALL SELECT s.id, s.boss, b.n + 1 "
        "FROM staff s INNER JOIN b ON s.boss = b.id) SELECT id, n FROM b OPTION (MAXRECURSION 0)",
        {(1, 0), (2, 1), (3, 2), (4, 2)},
    ),
    (
        "postgres",
        "WITH RECURSIVE b AS (SELECT id, ARRAY[id] AS path FROM staff WHERE boss IS NULL UNION ALL SELECT s.id, "
        "b.path || s.id FROM staff s JOIN b ON s.boss = b.id WHERE s.id <> ALL (b.path)) "
        "SELECT id, path[1] AS top, cardinality(path) AS n FROM b",
        {(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 3)},
    ),
    (
        "bigquery",
        "WITH RECURSIVE b AS (SELECT id, CAST(NULL AS INT64) AS up FROM staff WHERE boss IS NULL UNION ALL "
        "SELECT s.id, b.id FROM staff s JOIN b ON s.boss = b.id) SELECT id, up FROM b",
        {(1, None), (2, 1), (3, 2), (4, 2)},
    ),
    (
        "sqlite",
        "WITH RECURSIVE b (id) AS (VALUES (1) UNION SELECT s.id FROM staff s, b WHERE s.boss = b.id) SELECT id, name "
        "FROM staff WHERE id IN (SELECT id FROM b)",
        {(1, "a"), (2, "b"), (3, "c"), (4, "d")},
    ),
    (
        "snowflake",
        "WITH RECURSIVE b (id, path) AS (SELECT id, name FROM staff WHERE boss IS NULL UNION ALL SELECT s.id, "
        "b.path || '>' || s.name FROM staff s JOIN b ON s.boss = b.id) SELECT id, path FROM b",
        {(1, "a"), (2, "a>b"), (3, "a>b>c"), (4, "a>b>d")},
    ),
]


LEVELS = {(1, 0), (2, 1), (3, 2), (4, 2)}
FORMS += [
    (
        "duckdb",
        "WITH RECURSIVE b(id, n) USING KEY (id, min(n)) AS (SELECT id, 0 FROM staff WHERE boss IS NULL UNION "
        "SELECT s.id, b.n + 1 FROM staff s JOIN b ON s.boss = b.id) SELECT id, n FROM b",
        LEVELS,
    ),
    (
        "materialize",
        "WITH MUTUALLY RECURSIVE b (id BIGINT, n INT) AS (SELECT id, MIN(n) FROM (SELECT id, 0 AS n FROM staff WHERE "
        "boss IS NULL UNION ALL SELECT s.id, b.n + s.id - b.id FROM staff s JOIN b ON s.boss = b.id) GROUP BY id) "
        "SELECT id, n FROM b",
        {(1, 0), (2, 1), (3, 2), (4, 3)},
    ),
    (
        "postgres",
        "WITH RECURSIVE b AS (SELECT MAX(top) AS top, id FROM (SELECT id, 0 AS top FROM staff WHERE boss IS NULL UNION "
        "SELECT s.id, b.top FROM b, staff s WHERE s.boss = b.id UNION SELECT id, 1 FROM staff WHERE name = 'a') AS u "
        "GROUP BY 2) SELECT id, top FROM b",
        {(1, 1), (2, 1), (3, 1), (4, 1)},
    ),
]


@every(FORMS)
def test_recursions_as_other_systems_write_them(dialect: str, query: str, wanted: set[Row]) -> None:
    view = crown.view(query, STAFF, dialect=dialect)
    view.update({"staff": [(1, None, "a"), (2, 1, "b"), (3, 2, "c"), (4, 2, "d"), (9, 8, "x")]})
    assert {tuple(row.values()) for row in view} == wanted
    view.apply({"staff": [{"id": 2, "boss": 1, "name": "b", "_weight": -1}]})
    assert {tuple(row.values()) for row in view} == {row for row in wanted if row[0] == 1}
