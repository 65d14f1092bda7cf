"""TUMBLE and HOP in SQL, over relations with windows and without, after every batch: engine = DuckDB."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from random import Random

import pytest

import crown
from crown.programs.program import ProgramEngine
from plans import program
from plans.errors import PlanError
from tests.marks import turns
from tests.models.window import WindowReference
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.programs.test_programs import apply, result_of

START = dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC)
TABLES = {"r": {"k": "int64", "ts": "timestamp"}, "s": {"k": "int64", "name": "string"}}
BUCKET = "time_bucket(INTERVAL '{size} minutes', ts, TIMESTAMPTZ '1970-01-01 00:00:00+00')"
HOPPED = (
    "(SELECT r.*, " + BUCKET.format(size=5) + " - i * INTERVAL 5 MINUTE AS ws FROM r, generate_series(0, 2) AS g(i))"
)
PAIRS = {
    "tumbling": (
        "SELECT TUMBLE_START(ts, INTERVAL '10' MINUTE) AS ws, TUMBLE_END(ts, '10 minutes') AS we, COUNT(*) AS n FROM r "
        "GROUP BY TUMBLE(ts, '10 minutes')",
        f"SELECT {BUCKET.format(size=10)} AS ws, ws + INTERVAL 10 MINUTE AS we, COUNT(*) AS n FROM r GROUP BY 1",
    ),
    "tumbling, joined": (
        "SELECT w.window_start, name, COUNT(*) AS n FROM TUMBLE(r, ts, '90 seconds') AS w JOIN s ON w.k = s.k "
        "WHERE w.window_end > TIMESTAMP '2024-01-01 00:00:00' GROUP BY w.window_start, name",
        "SELECT time_bucket(INTERVAL '90 seconds', ts, TIMESTAMPTZ '1970-01-01 00:00:00+00') AS ws, name, "
        "COUNT(*) AS n FROM r JOIN s ON r.k = s.k WHERE ts IS NOT NULL AND "
        "ws + INTERVAL 90 SECOND > TIMESTAMPTZ '2024-01-01 00:00:00+00' GROUP BY 1, 2",
    ),
    "sliding": (
        "SELECT window_start, window_end, k, COUNT(*) AS n FROM HOP(r, ts, INTERVAL '5' MINUTE, '12 minutes') AS w "
        "GROUP BY window_start, window_end, k",
        f"SELECT ws, ws + INTERVAL 12 MINUTE AS we, k, COUNT(*) AS n FROM {HOPPED} WHERE ts < ws + INTERVAL 12 MINUTE "
        "GROUP BY ws, k",
    ),
    "tumbling, as Flink writes it": (
        "SELECT w.window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) AS w "
        "GROUP BY w.window_start",
        f"SELECT {BUCKET.format(size=10)} AS ws, COUNT(*) AS n FROM r WHERE ts IS NOT NULL GROUP BY 1",
    ),
    "sliding, as Flink writes it": (
        "SELECT * FROM table(hop(TABLE r, descriptor(ts), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))",
        f"SELECT k, ts, ws, ws + INTERVAL 15 MINUTE AS we FROM {HOPPED} WHERE ts IS NOT NULL",
    ),
    "growing": (
        "SELECT window_start, window_end, k, COUNT(*) AS n FROM CUMULATE(r, ts, '5 minutes', '15 minutes') "
        "GROUP BY window_start, window_end, k",
        f"SELECT ws, we, k, COUNT(*) AS n FROM (SELECT {BUCKET.format(size=15)} AS ws, "
        "ws + (i + 1) * INTERVAL 5 MINUTE AS we, k, ts FROM r, generate_series(0, 2) AS g(i)) WHERE ts < we "
        "GROUP BY ALL",
    ),
    "growing, as Flink writes it": (
        "SELECT w.k, w.window_end FROM TABLE(CUMULATE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' MINUTES, "
        "INTERVAL '10' MINUTES)) AS w",
        f"SELECT k, {BUCKET.format(size=10)} + (i + 1) * INTERVAL 5 MINUTE AS we FROM r, generate_series(0, 1) AS g(i) "
        "WHERE ts < we",
    ),
    "sliding, all columns": (
        "SELECT * FROM HOP(r, ts, '5 minutes', '15 minutes')",
        f"SELECT k, ts, ws, ws + INTERVAL 15 MINUTE AS we FROM {HOPPED} WHERE ts IS NOT NULL",
    ),
}


@pytest.mark.parametrize("kept", [None, "40 minutes"], ids=["all", "ttl"])
@pytest.mark.parametrize("name", PAIRS)
def test_windows_in_sql_are_those_of_duckdb(name: str, kept: str | None) -> None:
    random, (ours, theirs) = Random(name), PAIRS[name]
    windows = {"r": crown.ttl("ts", kept, lateness="5 minutes")} if kept else {}
    made = program(ours, TABLES, windows=windows)
    engine, database, total = ProgramEngine.create(made), Database(TABLES), Counter[Row]()
    window = WindowReference(made.windows[0], database.schema["r"].columns) if kept else None
    for turn in turns(8, 12):
        now = START + dt.timedelta(minutes=11 * turn)
        times = [now - dt.timedelta(seconds=random.choice((0, 37, 300, 600, 4000))) for _ in range(5)]
        r: list[tuple[Row, int]] = [((random.randrange(3), at), 1) for at in times]
        r += [(row, -1) for row in random.sample(sorted(database.rows["r"], key=repr), min(2, len(database.rows["r"])))]
        r += [((1, None), 1)] * (kept is None)
        batch = {"r": r, "s": [((random.randrange(3), random.choice("ab")), 1)]}
        read = {table.name for table in made.tables}
        changes = {n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in read}
        total.update(apply(engine, changes))
        database.apply(batch)
        if window is not None:
            window.apply(r)
            database.rows["r"] = Counter(row for _, row in window.copies)
        assert Counter({row: n for row, n in total.items() if n}) == result_of(engine)
        assert result_of(engine) == duck.results(theirs, database)
    engine.check_invariants()
    assert engine.result.count()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM HOP(r, ts, '5 minutes')", "HOP in FROM takes a table, a column with a time, and the slide"),
        ("SELECT * FROM TUMBLE(ts, '5 minutes')", "TUMBLE in FROM takes a table, a column with a time, and the size"),
        ("SELECT * FROM HOP(r, ts, '5 minutes', 3)", "HOP takes the length of a window as a constant"),
        ("SELECT * FROM HOP(r, ts, '2 hours', '1 hour')", "a slide that is longer than the size"),
        ("SELECT * FROM HOP(r, ts, '1 second', '1 hour')", "each row would be in 3600 windows"),
        ("SELECT * FROM CUMULATE(r, ts, '7 minutes', '1 hour')", "the size is not a multiple of the step"),
        ("SELECT * FROM CUMULATE(r, ts, '5 minutes')", "CUMULATE in FROM takes a table, a column .* and the step"),
        ("SELECT * FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), '1 hour'))", "unknown table z"),
        ("SELECT * FROM TUMBLE(r, z, '1 hour')", "unknown column z"),
        ("SELECT * FROM TUMBLE(z, ts, '1 hour')", "unknown table z"),
        ("SELECT TUMBLE(k, '1 day') AS x FROM r", "TUMBLE takes a date or a timestamp, not int64"),
        ("SELECT TUMBLE_START(ts, '1 month') AS x FROM r", "months and years have no fixed length"),
        ("SELECT TUMBLE_END(ts) AS x FROM r", "TUMBLE_END takes a timestamp and a length, not 1 arguments"),
    ],
)
def test_a_window_of_sql_that_makes_no_sense_is_one_sentence(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said) as caught:
        program(query, TABLES)
    assert caught.value.position is not None
