"""Queries that read the clock: after every batch and tick the result is what DuckDB says of the query at that time."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import crown
from crown.programs.program import ProgramEngine
from plans.errors import PlanError
from plans.planner import program
from tests.marks import slow, turns
from tests.oracles import duck
from tests.oracles.database import Database, Row
from tests.programs.test_programs import result_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {
    "r": {"a": "int64", "ts": "timestamp", "till": "timestamp"},
    "s": {"a": "int64", "day": "date", "local": "timestamp_ntz"},
}
QUERIES = [
    "SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' HOUR",
    "SELECT a FROM r WHERE ts >= CURRENT_TIMESTAMP - INTERVAL '1' HOUR AND ts <= NOW()",
    "SELECT a, ts FROM r WHERE NOW() BETWEEN ts AND till",
    "SELECT DISTINCT a FROM r WHERE ts < NOW() - INTERVAL '30' MINUTE AND a > 1",
    "SELECT a FROM r WHERE ts = NOW()",
    "SELECT a, COUNT(*) AS n, MAX(till) AS m FROM r WHERE NOW() < till GROUP BY a",
    "SELECT r.a, s.day FROM r JOIN s ON r.a = s.a WHERE r.ts <= NOW() AND s.day >= CURRENT_DATE - INTERVAL '1' DAY",
    "SELECT a FROM s WHERE day > CURRENT_DATE",
    "SELECT a FROM s WHERE day <= CURRENT_DATE AND day > CURRENT_DATE - INTERVAL '2' DAY",
    "SELECT a FROM s WHERE day = CURRENT_DATE",
    "SELECT a FROM r WHERE ts >= CURRENT_DATE",
    "SELECT a FROM r WHERE ts < DATE_TRUNC('hour', NOW())",
    "SELECT a FROM s WHERE local > LOCALTIMESTAMP - INTERVAL '3' HOUR",
    "SELECT COUNT(*) AS n FROM (SELECT a, MAX(ts) AS m FROM r GROUP BY a) AS t WHERE m < NOW() - INTERVAL '1' HOUR",
    "SELECT a, MAX(ts) AS m FROM r GROUP BY a HAVING MAX(ts) > NOW() - INTERVAL '1' HOUR",
    "SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' HOUR UNION ALL SELECT a FROM s WHERE day < CURRENT_DATE",
    "SELECT r.a FROM r WHERE EXISTS (SELECT * FROM s WHERE s.a = r.a AND s.day >= CURRENT_DATE)",
    "SELECT r.a FROM r JOIN s ON r.a = s.a "
    "WHERE GREATEST(r.ts, CAST(s.local AS TIMESTAMPTZ)) < NOW() AND s.day > CURRENT_DATE",
    "SELECT a FROM r WHERE DATEDIFF('day', CAST(ts AS DATE), CURRENT_DATE) < 1",
    "SELECT r.a, s.day FROM r LEFT JOIN s ON r.a = s.a AND s.day > CURRENT_DATE AND s.a > 1",
    "SELECT r.a, s.local FROM r LEFT JOIN s ON r.a = s.a AND s.local <= LOCALTIMESTAMP WHERE s.a IS NULL OR s.a < 4",
    "SELECT r.a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.day < CURRENT_DATE) AND r.ts < NOW()",
    "SELECT r.a FROM r WHERE r.a NOT IN (SELECT s.a FROM s WHERE s.day < CURRENT_DATE)",
    "SELECT a, (SELECT COUNT(*) FROM s WHERE s.a = r.a AND s.day >= CURRENT_DATE) AS n FROM r WHERE ts > NOW()",
    "SELECT x.a FROM r AS x JOIN r AS y ON x.a = y.a WHERE x.ts < NOW() AND y.till >= NOW() - INTERVAL '1' HOUR",
    "SELECT a FROM r WHERE NOW() - ts < INTERVAL '1' HOUR",
    "SELECT a, COUNT(*) FILTER (WHERE ts > NOW() - INTERVAL '1' HOUR) AS n, COUNT(*) AS m FROM r GROUP BY a",
    "SELECT SUM(CASE WHEN ts > NOW() - INTERVAL '1' HOUR THEN a ELSE 0 END) AS n, MAX(till) AS m FROM r",
    "SELECT a, ts, ts <= NOW() AS begun, NOW() BETWEEN ts AND till AS there FROM r",
    "SELECT a FROM r WHERE ts > NOW() OR till < NOW() - INTERVAL '1' HOUR OR a = 1",
    "SELECT a FROM r WHERE NOT (ts > NOW() AND a > 1) AND till > NOW() - INTERVAL '2' HOUR",
    "SELECT DISTINCT a, ts = NOW() AS now FROM r WHERE a > 1",
    "SELECT r.a, s.day FROM r JOIN s ON r.a = s.a WHERE r.ts < NOW() OR s.local > LOCALTIMESTAMP",
    "SELECT a FROM r WHERE CASE WHEN a > 2 THEN ts < NOW() ELSE till > NOW() END",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a HAVING MAX(ts) < NOW() OR COUNT(*) > 2",
    "SELECT a, day, CURRENT_DATE AS today FROM s",
    "SELECT a FROM s WHERE day + a > CURRENT_DATE OR a = 1",
    "SELECT a FROM (SELECT a, ts, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC, till) AS n FROM r) AS t "
    "WHERE n = 1 AND ts > NOW() - INTERVAL '2' HOUR",
]


def rows(random_: random.Random, relation: str, count: int) -> list[tuple[Any, ...]]:
    """Rows whose times are around noon; some are NULL."""

    def moment() -> datetime | None:
        return None if random_.random() < 0.1 else NOON + timedelta(minutes=15 * random_.randint(-12, 24))

    def row() -> tuple[Any, ...]:
        number = random_.randint(0, 4)
        if relation == "r":
            return number, moment(), moment()
        time = moment()
        day = None if random_.random() < 0.1 else date(2026, 3, 1) + timedelta(days=random_.randint(-3, 3))
        return number, day, None if time is None else time.replace(tzinfo=None)

    return [row() for _ in range(count)]


def expected(query: str, database: Database, now: datetime) -> Counter[Row]:
    """What DuckDB says of the query with the time as a constant."""
    clock = f"TIMESTAMPTZ '{now.isoformat()}'"
    text = query.replace("CURRENT_TIMESTAMP", clock).replace("LOCALTIMESTAMP", f"CAST({clock} AS TIMESTAMP)")
    text = text.replace("NOW()", clock).replace("CURRENT_DATE", f"CAST({clock} AS DATE)")
    text = text.replace("day + a", "CAST(day + CAST(a AS INT) AS DATE)")
    return duck.results(text, database)


def found(view: crown.View) -> Counter[tuple[Any, ...]]:
    table = view.to_table()
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize(("seed", "rounds"), [(0, 7), slow(1, 14)])
@pytest.mark.parametrize("query", QUERIES)
def test_the_result_is_that_of_the_query_at_the_time(query: str, seed: int, rounds: int, tmp_path: Path) -> None:
    random_, database, now = random.Random(seed), Database(SCHEMA), NOON
    view = crown.view(query, SCHEMA)
    following: Counter[tuple[Any, ...]] = Counter()
    for turn in range(rounds):
        batch: dict[str, Any] = {}
        for relation in SCHEMA:
            there = list(database.rows[relation].elements())
            gone = random_.sample(there, k=min(2, len(there)))
            come = rows(random_, relation, random_.randint(0, 6))
            signed = [(row, -1) for row in gone] + [(row, 1) for row in come]
            database.apply({relation: signed})
            batch[relation] = [dict(zip(SCHEMA[relation], row, strict=True), _weight=w) for row, w in signed]
        if turn % 3:
            now += timedelta(minutes=random_.choice([0, 1, 15, 60, 60 * 26]))
        delta = view.apply({**batch, "now()": now})
        for row in delta.to_pylist():
            following[tuple(row.values())[:-1]] += row["_weight"]
        assert found(view) == expected(query, database, now) == +following, f"{query} in turn {turn}"
        assert not -following
        view.check_invariants()
        if turn == rounds // 2:
            view.save(tmp_path / "state")
            view = crown.load(tmp_path / "state")
        later = now + timedelta(minutes=random_.choice([0, 15, 30]))
        for row in view.tick(later).to_pylist():
            following[tuple(row.values())[:-1]] += row["_weight"]
        now = later
        assert found(view) == expected(query, database, now) == +following, f"{query} after a tick in turn {turn}"


@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_is_undone_with_its_time(query: str) -> None:
    random_, made = random.Random(7), program(query, SCHEMA)
    engine = ProgramEngine.create(made)
    for turn in turns(5, 8):
        now = [{"clock": 0, "now": NOON + timedelta(minutes=40 * turn)}]
        batch = {name: rows(random_, name, 5) for name in SCHEMA if name in {t.name for t in made.tables}}
        before = result_of(engine)
        engine.run(engine.prepare({**batch, "now()": now}), deltas=False).close()
        if turn % 2:
            engine.undo({**batch, "now()": now})
            engine.check_invariants()
            assert result_of(engine) == before
            engine.run(engine.prepare({**batch, "now()": now}), deltas=False).close()


def test_the_clock_of_the_machine_is_read_with_every_batch_and_never_goes_back() -> None:
    view = crown.view("SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' HOUR", SCHEMA)
    here = datetime.now(UTC)
    assert view.insert("r", [(1, here, None), (2, here - timedelta(hours=2), None)]).num_rows == 1
    assert view.tick(here - timedelta(days=1)).num_rows == 0
    assert view.tick(here + timedelta(days=1)).to_pylist() == [{"a": 1, "_weight": -1}]
    assert view.insert("r", [(3, here, None)]).num_rows == 0, "the clock is a day ahead"


def test_a_durable_view_goes_on_at_the_times_that_it_had(tmp_path: Path) -> None:
    query = "SELECT a FROM r WHERE NOW() BETWEEN ts AND till"
    with crown.open(query, tmp_path / "v", SCHEMA) as view:
        view.apply({"r": [(1, NOON, NOON + timedelta(hours=1)), (2, NOON + timedelta(hours=1), None)], "now()": NOON})
        view.tick(NOON + timedelta(minutes=30))
    with crown.open(None, tmp_path / "v") as view:
        assert view.to_table().to_pylist() == [{"a": 1}]
        assert view.tick(NOON + timedelta(hours=2)).to_pylist() == [{"a": 1, "_weight": -1}]


def test_the_views_of_a_database_see_one_clock() -> None:
    database = crown.database(SCHEMA)
    database.view("recent", "SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' HOUR")
    database.view("old", "SELECT a FROM r WHERE ts <= NOW() - INTERVAL '1' HOUR")
    database.apply({"r": [(1, NOON, None)], "now()": NOON})
    deltas = database.tick(NOON + timedelta(hours=1))
    assert {name: delta.to_pylist() for name, delta in deltas.items()} == {
        "recent": [{"a": 1, "_weight": -1}],
        "old": [{"a": 1, "_weight": 1}],
    }
    database.view("open", "SELECT a FROM r WHERE till IS NULL AND ts < NOW()")
    assert database["open"].to_table().to_pylist() == [{"a": 1}]


def test_a_view_of_a_database_with_rows_begins_with_the_time_of_the_machine() -> None:
    database = crown.database(SCHEMA)
    database.view("all", "SELECT a FROM r")
    here = datetime.now(UTC)
    database.apply({"r": [(1, here, None), (2, here - timedelta(days=1), None)]})
    database.view("recent", "SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' HOUR")
    assert database["recent"].to_table().to_pylist() == [{"a": 1}]
    assert [table.name for table in database.tables] == ["r", "s"]


def test_steps_do_not_grow_with_the_rows_whose_time_does_not_come() -> None:
    costs = []
    for live in (1_000, 64_000):
        view = crown.view("SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' HOUR", SCHEMA)
        view.update({"r": [(n, NOON + timedelta(days=1, seconds=n), None) for n in range(live)], "now()": NOON})
        view.update({"r": [(n, NOON + timedelta(seconds=n), None) for n in range(50)], "now()": NOON})
        before = view._engine.stages[0].stats()["steps"]
        assert view.tick(NOON + timedelta(hours=2)).num_rows == 50
        costs.append(view._engine.stages[0].stats()["steps"] - before - live)  # stats scans all rows once
    assert costs[1] < costs[0] + 200


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a, NOW() AS n FROM r", "NOW() is read where its value would change every row"),
        (
            "SELECT a FROM r WHERE ts > NOW() - INTERVAL '1' MONTH",
            "NOW() is read where its value would change every row",
        ),
        (
            "SELECT r.a FROM r LEFT JOIN s ON r.a = s.a AND r.ts > NOW()",
            "in ON reads more than the table that is joined",
        ),
        (
            "SELECT a, NOW() AS n, COUNT(*) AS c FROM r GROUP BY a",
            "NOW() is read where its value would change every row",
        ),
    ],
)
def test_what_would_change_every_row_is_refused(query: str, message: str) -> None:
    with pytest.raises(PlanError, match=message.replace("(", r"\(").replace(")", r"\)")):
        crown.view(query, SCHEMA)
