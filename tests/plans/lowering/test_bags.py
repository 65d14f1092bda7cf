"""SQL without DISTINCT, and outputs that keys complete: random queries over tables with keys, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import crown
from plans import Column, PlanError, Table, plan
from tests.marks import draws
from tests.oracles import duck
from tests.oracles.database import Database, Row, canonical, to_arrow

TABLES = {
    "g": Table("g", (Column("src", "int64"), Column("dst", "int64")), distinct=True),
    "p": Table("p", (Column("id", "int64"), Column("x", "int64"), Column("y", "int64")), key=("id",)),
    "q": Table("q", (Column("a", "int64"), Column("b", "int64"), Column("c", "int64")), key=("a", "b")),
    "r": Table("r", (Column("u", "int64"), Column("v", "int64"))),
}


@st.composite
def queries(draw: st.DrawFn, select: str) -> str:
    """A query of up to three aliases, random equalities and outputs, perhaps with a subquery."""
    names = draw(st.lists(st.sampled_from(["g", "p", "q", "p", "q", "g", "r"]), min_size=1, max_size=3))
    columns = [f"t{i}.{column.name}" for i, name in enumerate(names) for column in TABLES[name].columns]
    conditions = [
        f"{draw(st.sampled_from(columns))} = {draw(st.sampled_from(columns))}" for _ in range(draw(st.integers(0, 3)))
    ]
    if draw(st.booleans()):
        conditions.append(f"{draw(st.sampled_from(columns))} = {draw(st.integers(0, 2))}")
    if draw(st.integers(0, 3)) == 0:
        conditions.append(f"{draw(st.sampled_from(columns))} IN (SELECT u FROM r WHERE v > 0)")
    if draw(st.integers(0, 3)) == 0:
        conditions.append(f"{draw(st.sampled_from(columns))} < {draw(st.sampled_from(columns))}")
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
    outputs = ", ".join(f"{column} AS o{i}" for i, column in enumerate(chosen))
    sources = [f"{name} t{i}" for i, name in enumerate(names)]
    if draw(st.integers(0, 3)) == 0:
        sources[0] = f"(SELECT DISTINCT * FROM {names[0]}) t0"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{select} {outputs} FROM {', '.join(sources)}{where}"


def _fresh(name: str, rows: Counter[Row], rng: random.Random) -> Row | None:
    table = TABLES[name]
    row = tuple(rng.randrange(3) for _ in table.columns)
    key = [i for i, column in enumerate(table.columns) if column.name in table.key] or list(range(len(row)))
    taken = (table.key or table.distinct) and any([old[i] for i in key] == [row[i] for i in key] for old in rows)
    return None if taken else row


def _maintain(query: str, seed: int) -> None:
    made = plan(query, TABLES)
    view, rng = crown.view(made), random.Random(seed)
    database = Database({name: table for name, table in TABLES.items() if any(t.name == name for t in made.tables)})
    before: set[Row] = set()
    for _ in range(4):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, rows in database.rows.items():
            gone = rng.sample(sorted(rows), min(len(rows), rng.randrange(3)))
            left = rows - Counter(gone)
            changes = [(row, -1) for row in gone]
            for _ in range(5):
                row = _fresh(name, left, rng)
                if row is not None:
                    left[row] += 1
                    changes.append((row, 1))
            batch[name] = changes
        database.apply(batch)
        delta = view.apply({name: to_arrow(database.schema, name, changes) for name, changes in batch.items()})
        found = duck.results(query, database)
        assert max(found.values(), default=1) == 1, "accepted without DISTINCT, and a row occurs twice"
        after = set(found)
        rows_out = canonical(zip(*(column.to_pylist() for column in delta.columns[:-1]), strict=True))
        changes_out = Counter(dict(zip(rows_out, delta["_weight"].to_pylist(), strict=True)))
        assert len(changes_out) == len(rows_out)
        assert changes_out == Counter(dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1))
        before = after


def _refusal(query: str) -> str:
    """Why the planner refuses the query; nothing if it does not."""
    try:
        plan(query, TABLES)
    except PlanError as error:
        return str(error)
    return ""


@draws(40, 60)
@given(queries("SELECT"), st.integers(0, 9))
def test_what_is_accepted_without_distinct_has_no_duplicates(query: str, seed: int) -> None:
    refusal = _refusal(query)
    if refusal:
        assert "DISTINCT" in refusal or "never holds" in refusal
    else:
        _maintain(query, seed)


@draws(40, 60)
@given(queries("SELECT DISTINCT"), st.integers(0, 9))
def test_deltas_are_exact_with_keys_in_place_of_support_counts(query: str, seed: int) -> None:
    refusal = _refusal(query)
    if refusal:
        assert "never holds" in refusal
    else:
        _maintain(query, seed)


COMPLETED_BY_KEYS = (
    "SELECT DISTINCT t0.id AS i, t1.y AS n FROM p t0, p t1 WHERE t0.x = t1.id",
    "SELECT t0.id AS i, t1.y AS n, t1.x AS m FROM p t0, p t1 WHERE t0.x = t1.id",
    "SELECT DISTINCT t0.id AS i, t0.x + t1.y AS s FROM p t0, p t1 WHERE t0.x = t1.id",
    "SELECT t0.id AS i, t2.b AS b, t2.a AS a, t1.y AS n FROM p t0, p t1, q t2 WHERE t0.x = t1.id AND t2.c = t0.id",
    "SELECT DISTINCT t0.id AS i FROM p t0, p t1 WHERE t0.x = t1.id AND t0.y < t1.y",
)


@pytest.mark.parametrize("query", COMPLETED_BY_KEYS)
def test_attributes_that_a_key_fixes_need_no_support_count(query: str) -> None:
    made = plan(query, TABLES)
    assert set(made.free) > {output.expr.value for output in made.output if output.expr.op == "col"}
    assert not made.added
    assert not made.support
    assert not made.consolidated
    for seed in range(5):
        _maintain(query, seed)
