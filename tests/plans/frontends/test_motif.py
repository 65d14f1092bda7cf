"""Motifs with negated edges have the rows of the anti joins that they are."""

from __future__ import annotations

import random

import pytest

from plans import PlanError, program
from tests.marks import every
from tests.oracles import duck
from tests.oracles.database import Database
from tests.plans.expressions.evaluator import results

EDGES: dict[str, object] = {"edges": {"src": "int64", "dst": "int64"}}
BOTH: dict[str, object] = {**EDGES, "vertices": {"columns": {"id": "int64", "kind": "string"}, "key": ["id"]}}
FIRST = "SELECT DISTINCT x.src AS a, x.dst AS b FROM edges x WHERE NOT EXISTS (SELECT * FROM edges n WHERE "
CASES = [
    ("(a)-[]->(b); !(b)-[]->(a)", FIRST + "n.src = x.dst AND n.dst = x.src)"),
    ("!(a)-[]->(a); (a)-[]->(b)", FIRST + "n.src = x.src AND n.dst = x.src)"),
    ("(a)-[]->(b); !(b)-[]->()", FIRST + "n.src = x.dst)"),
    ("(a)-[]->(b); !()-[]->(a); !(b)-[]->(b)", FIRST + "n.dst = x.src OR n.src = x.dst AND n.dst = x.dst)"),
    (
        "(a)-[edge2]->(b); (b)-[]->(c); !(a)-[]->(c)",
        "SELECT DISTINCT x.src, x.dst, y.dst AS c FROM edges x, edges y WHERE x.dst = y.src "
        "AND NOT EXISTS (SELECT * FROM edges n WHERE n.src = x.src AND n.dst = y.dst)",
    ),
]
VERTEX_CASES = [
    ("(a); !(a)-[]->()", "SELECT id, kind FROM vertices WHERE NOT EXISTS (SELECT * FROM edges WHERE src = id)"),
    (
        "(a)-[]->(b); !(b)-[]->(a)",
        "SELECT DISTINCT a.id, a.kind, b.id AS b, b.kind AS bk FROM vertices a, vertices b, edges x "
        "WHERE a.id = x.src AND b.id = x.dst "
        "AND NOT EXISTS (SELECT * FROM edges n WHERE n.src = b.id AND n.dst = a.id)",
    ),
]


def database(tables: dict[str, object], seed: int) -> Database:
    rng = random.Random(seed)
    made = Database(tables)
    ends = (0, 1, 2, 3, None)
    made.apply({"edges": [((rng.choice(ends), rng.choice(ends)), rng.choice((1, 2))) for _ in range(3 * seed)]})
    if "vertices" in tables:
        made.apply({"vertices": [((i, rng.choice(("p", "q", None))), 1) for i in range(4)]})
    return made


@every([*((*case, EDGES) for case in CASES), *((*case, BOTH) for case in VERTEX_CASES)])
def test_a_negated_edge_is_an_anti_join(motif: str, sql: str, tables: dict[str, object]) -> None:
    made = program(motif, tables)
    for seed in range(5):
        given = database(tables, seed)
        assert results(made, given) == duck.results(sql, given), seed


@pytest.mark.parametrize(
    ("motif", "message", "column"),
    [
        ("!(a)-[]->(b)", "every edge is negated", 1),
        ("(a)-[]->(b); !(b)-[]->(c)", "vertex c is only in negated edges", 14),
        ("(a)-[]->(b); !(b)-[e]->(a)", "the negated edge e has a name", 14),
    ],
)
def test_a_negated_edge_that_says_nothing_is_refused(motif: str, message: str, column: int) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        program(motif, EDGES)
    assert caught.value.position is not None
    assert caught.value.position.column == column
