"""A table at a cell enters part by part, and what comes out is the result over all of it."""

import random
from collections import Counter

import pyarrow as pa
import pytest

import crown
import plans
from crown.engine.engine import Engine
from spark_jobs.cell import table
from spark_jobs.dispatch.envelope import CELL, WEIGHT, cell_plan, envelope_of

TABLES = {"R": {"a": "int64", "b": "int64"}}
QUERIES = [
    "SELECT DISTINCT x.a AS a, x.b AS b, y.b AS c FROM R x, R y WHERE x.b = y.a",
    "SELECT DISTINCT x.a AS a, y.b AS c FROM R x, R y WHERE x.b = y.a",
    "SELECT x.a AS a, y.b AS c FROM R x, R y WHERE x.b = y.a",
]


class Batches:
    """Record batches as Spark would hand them over; ``waiting`` says how many have not been asked for yet."""

    def __init__(self, rows):
        self.rows, self.waiting = rows, len(rows)

    def __iter__(self):
        for a, b, weight in self.rows:
            self.waiting -= 1
            yield pa.RecordBatch.from_pydict({CELL: [0], WEIGHT: [weight], "s0": [a], "s1": [b]})


def of(program):
    """The plan of a query that is one join."""
    return program.plan or next(stage.plan for stage in program.stages if hasattr(stage, "plan"))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("deletes", [False, True])
def test_parts_of_a_table_give_what_all_of_it_gives_at_once(query, deletes, monkeypatch):
    monkeypatch.setattr(table, "PART_ROWS", 7)
    rng = random.Random(5)
    rows = [(rng.randrange(5), rng.randrange(5), rng.choice([1, 2, -1] if deletes else [1])) for _ in range(60)]
    rng.shuffle(rows)
    program = plans.program(query, TABLES)
    envelope = envelope_of(of(program), cells=1, quarantine=False)
    engine = Engine.create(cell_plan(of(program), envelope))
    entered = []
    run, given = engine.run, Batches(rows)
    monkeypatch.setattr(engine, "run", lambda *a, **k: entered.append(given.waiting) or run(*a, **k))
    engine.begin()
    assert table.enter(engine, envelope, given) == []
    assert entered[:3] == [53, 46, 39], "a part enters before the next one is asked for"
    found = Counter()
    for batch in table.whole(engine):
        assert batch.schema == engine.delta_schema
        for *row, weight in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            assert weight > 0
            found[tuple(row)] += weight
    net = Counter()
    for a, b, weight in rows:
        net[a, b] += weight
    view = crown.view(query, TABLES)
    view.update({"R": [{"a": a, "b": b, "_weight": n} for (a, b), n in net.items() if n > 0]})
    expected = Counter(
        tuple(row[name] for name in ("a", "b", "c") if name in row) for row in view.to_table().to_pylist()
    )
    if "_weight" in view.schema.names:
        expected = Counter({(row["a"], row["c"]): row["_weight"] for row in view.to_table().to_pylist()})
    assert found == expected
    engine.check_invariants()
