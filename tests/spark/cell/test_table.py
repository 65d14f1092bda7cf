"""A table at a cell enters part by part, and what comes out is the result over all of it."""

import random
from collections import Counter

import pyarrow as pa
import pytest

import crown
import plans
from crown.programs.program import ProgramEngine
from plans.time.windows import last_rows
from spark_jobs.cell import table
from spark_jobs.cell.engines import created
from spark_jobs.dispatch.envelope import CELL, WEIGHT, cell_program, envelope_of

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


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(("share", "most", "parts"), [(1 << 40, 10, [53, 46, 39]), (1, 10, [50, 40, 30])])
def test_parts_of_a_table_give_what_all_of_it_gives_at_once(query, deletes, share, most, parts, monkeypatch):
    for name, value in {"PART_ROWS": 7, "JOIN_SHARE": share, "MOST_ROWS": most}.items():
        monkeypatch.setattr(table, name, value)
    rng = random.Random(5)
    rows = [(rng.randrange(5), rng.randrange(5), rng.choice([1, 2, -1] if deletes else [1])) for _ in range(60)]
    rng.shuffle(rows)
    program = plans.program(query, TABLES)
    envelope = envelope_of(program, cells=1, quarantine=False)
    engine = ProgramEngine.create(cell_program(program, envelope))
    entered = []
    run, given = engine.run, Batches(rows)
    monkeypatch.setattr(engine, "run", lambda *a, **k: entered.append(given.waiting) or run(*a, **k))
    engine.begin()
    assert table.enter(engine, envelope, given) == []
    assert entered[:3] == parts, "a part enters before the next one is asked for"
    found = Counter()
    for batch in table.full_result(engine):
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
    assert found == expected
    engine.check_invariants()


PROGRAMS = [
    "SELECT COUNT(*) AS n, SUM(b) AS s FROM R WHERE a > 1",
    "SELECT a, COUNT(*) AS n, MAX(b) AS m FROM R GROUP BY a HAVING COUNT(*) > 2",
    "SELECT COUNT(*) AS n FROM R GROUP BY a",
    "SELECT a FROM R UNION ALL SELECT b FROM R",
    "SELECT a FROM R EXCEPT SELECT b FROM R",
    "SELECT x.a, y.b FROM R x LEFT JOIN R y ON x.b = y.a",
    "SELECT x.a, x.b, t.n FROM R x JOIN (SELECT a, COUNT(*) AS n FROM R GROUP BY a) t ON x.a = t.a",
    "SELECT a, b FROM R ORDER BY b DESC, a LIMIT 5",
    "SELECT a FROM R ORDER BY b DESC LIMIT 5",
]


def rows_of(batches):
    """Rows with the sum of their weights; a row comes once."""
    found = {}
    for batch in batches:
        for *row, weight in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            assert tuple(row) not in found, "a row comes once"
            found[tuple(row)] = weight
    return found


@pytest.mark.parametrize("query", PROGRAMS)
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
def test_parts_of_a_table_enter_a_program_with_the_result_of_one_batch(query, deletes, on_missing, monkeypatch):
    monkeypatch.setattr(table, "PART_ROWS", 7)
    monkeypatch.setattr(table, "SHARE", 1 << 40)
    monkeypatch.setattr(table, "JOIN_SHARE", 1 << 40)
    rng = random.Random(7)
    rows = [(rng.randrange(5), rng.randrange(5), rng.choice([1, 2])) for _ in range(60)]
    if deletes:  # of rows that are there, some before they come
        rows += [(a, b, -1) for a, b, _ in rng.sample(rows, 25)]
        rng.shuffle(rows)
    program = plans.program(query, TABLES)
    assert program.plan is None
    envelope = envelope_of(program, cells=1, quarantine=False)
    cut = cell_program(program, envelope)
    engine, other = created(cut, None, on_missing), created(cut, None, on_missing)
    assert table.by_parts(engine)
    given, entered = Batches(rows), []
    run = engine.run
    monkeypatch.setattr(engine, "run", lambda *a, **k: entered.append(given.waiting) or run(*a, **k))
    engine.begin()
    assert table.enter(engine, envelope, given) == []
    assert entered[:3] == [len(rows) - 7, len(rows) - 14, len(rows) - 21]
    changes, _ = envelope.split(Batches(rows))
    assert rows_of(table.full_result(engine)) == rows_of(other.run(other.prepare(changes)))
    assert all(batch.schema == engine.delta_schema for batch in table.full_result(engine))
    engine.check_invariants()


def test_a_part_of_a_program_grows_with_its_state(monkeypatch):
    monkeypatch.setattr(table, "PART_ROWS", 7)
    program = plans.program("SELECT a, COUNT(*) AS n FROM R GROUP BY a", TABLES)
    envelope = envelope_of(program, cells=1, quarantine=False)
    engine = ProgramEngine.create(cell_program(program, envelope))
    size = next(iter(Batches([(1, 1, 1)]))).nbytes
    bytes_of = iter([0, 20 * size * table.SHARE, 0, 0])
    monkeypatch.setattr(engine, "stats", lambda: {"live_bytes": next(bytes_of)})
    given, entered, run = Batches([(1, 1, 1)] * 40), [], engine.run
    monkeypatch.setattr(engine, "run", lambda *a, **k: entered.append(given.waiting) or run(*a, **k))
    table.enter(engine, envelope, given)
    assert entered[:3] == [33, 13, 6]


def test_a_program_with_a_window_takes_its_rows_at_once():
    program = plans.program("SELECT a, COUNT(*) AS n FROM R GROUP BY a", TABLES, windows={"R": last_rows(3, by="b")})
    assert not table.by_parts(created(program, None, "ignore"))
