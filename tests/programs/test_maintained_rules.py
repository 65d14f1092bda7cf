"""Datalog and motifs that are programs of stages, maintained by a view: view = DuckDB after every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

import crown
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.frontends.test_motif import BOTH, CASES, EDGES, VERTEX_CASES
from tests.plans.lowering.test_programs import rounded
from tests.plans.random_rules import TABLES, Rules

RULES = (
    ("Q(a, count(), sum(b)) :- g(a, b), p(b).",
     "SELECT a, COUNT(*), SUM(b) FROM (SELECT DISTINCT g.a, b FROM g JOIN p ON b = p.a) AS v GROUP BY a"),
    ("Q(a, b) :- g(a, b), not h(b, _).",
     "SELECT DISTINCT a, b FROM g WHERE NOT EXISTS (SELECT * FROM h WHERE h.b = g.b)"),
    ("Q(a, count() as n) :- g(a, b), not p(b). Q(a, 0) :- p(a), not g(a, _).",
     "SELECT a, COUNT(DISTINCT COALESCE(b, -1)) FROM g WHERE NOT EXISTS (SELECT * FROM p WHERE p.a = g.b) GROUP BY a "
     "UNION SELECT a, 0 FROM p WHERE NOT EXISTS (SELECT * FROM g WHERE g.a = p.a)"),
)  # fmt: skip


def batch_of(random: Random, database: Database) -> dict[str, list[tuple[Row, int]]]:
    """Inserts, and deletes of what is there; the key of vertices stays one."""
    batch: dict[str, list[tuple[Row, int]]] = {}
    for name, table in database.schema.items():
        rows = database.rows[name]
        batch[name] = [(row, -rows[row]) for row in random.sample(sorted(rows, key=repr), min(len(rows), 2))]
        width = len(table.columns)
        if name == "vertices":
            batch[name] += [((key, "p"), 1) for key in random.sample(range(5), 2) if key not in {r[0] for r in rows}]
            continue
        for _ in range(random.randint(0, 4)):
            row = tuple(random.choice((0, 1, 2, 3, None)) for _ in range(width))
            batch[name].append((row, random.choice((1, 1, 2))))
    return batch


def maintain(query: str, sql: str, tables: Mapping[str, object]) -> None:
    """Applies random batches to a view, deletes everything in the last one, and compares after each."""
    random = Random(query)
    view = crown.view(query, tables)
    database = Database(dict(tables))
    read = {table.name for table in view.plan.tables}
    total: Counter[Row] = Counter()
    for turn in range(7):
        batch = batch_of(random, database) if turn < 6 else database.everything(-1)
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items() if name in read}
        delta: Any = view.apply(changes)
        for *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
            total[tuple(row)] += weight
        database.apply(batch)
        total = Counter({row: copies for row, copies in total.items() if copies})
        assert rounded(total) == rounded(duck.results(sql, database)), f"batch {turn} of {query}"
        assert view.count() == total.total()


@pytest.mark.parametrize(("rule", "sql"), RULES)
def test_rules_are_maintained(rule: str, sql: str) -> None:
    maintain(rule, sql, TABLES)


@pytest.mark.parametrize("seed", range(12))
def test_random_rules_are_maintained(seed: int) -> None:
    rules = Rules(1000 + seed)
    maintain(rules.datalog, rules.sql, TABLES)


@pytest.mark.parametrize(
    ("motif", "sql", "tables"), [(*CASES[0], EDGES), (*CASES[-1], EDGES), (*VERTEX_CASES[0], BOTH)]
)
def test_negated_edges_are_maintained(motif: str, sql: str, tables: dict[str, object]) -> None:
    maintain(motif, sql, tables)
