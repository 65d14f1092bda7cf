"""Batches of recursions that are one native call: each beside an engine that takes them step by step, and beside
DuckDB."""

from __future__ import annotations

from random import Random

import pytest

from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines import rounds
from crown.stages.kernels.groups import batch as group_batch
from tests.marks import by_turns, seeds, turns
from tests.programs.stepwise import Changes, Stepwise, refusals
from tests.programs.test_native_joins import little_room, small_buffers

TABLES = {
    "s": {"x": "int64"},
    "g": {"src": "int64", "dst": "int64"},
    "t": {"src": "int64", "dst": "int64", "label": "string", "price": "decimal(12,2)"},
}
REACHED = "r(x) AS (SELECT x FROM s UNION SELECT dst FROM r JOIN g ON r.x = g.src)"
CLOSURE = "r AS (SELECT src, dst FROM g UNION SELECT r.src, g.dst FROM r JOIN g ON r.dst = g.src)"
QUERIES = {
    "rows from some": f"WITH RECURSIVE {REACHED} SELECT x FROM r",
    "closure": f"WITH RECURSIVE {CLOSURE} SELECT src, dst FROM r",
    "two steps": (
        "WITH RECURSIVE r(x) AS (SELECT x FROM s UNION (SELECT dst FROM r, g WHERE r.x = g.src UNION "
        "SELECT t.dst FROM r, t WHERE r.x = t.src AND label <> 'b')) SELECT x FROM r"
    ),
    "computed columns": (
        "WITH RECURSIVE r AS (SELECT src, dst, CAST(1 AS BIGINT) AS d FROM g UNION "
        "SELECT r.src, g.dst, r.d + 1 FROM r JOIN g ON r.dst = g.src WHERE r.d < 4) SELECT src, dst, d FROM r"
    ),
    "texts and decimals": (
        "WITH RECURSIVE r AS (SELECT src, label, price FROM t WHERE label <> 'c' UNION "
        "SELECT t.dst, t.label, r.price FROM r JOIN t ON r.src = t.src AND r.label = t.label WHERE t.price < 4) "
        "SELECT src, label, price FROM r"
    ),
    "copies of texts": (
        "WITH RECURSIVE r AS (SELECT src, label, 1 AS d FROM t UNION ALL SELECT g.dst, r.label || 'x', r.d + 1 FROM r "
        "JOIN g ON r.src = g.src WHERE r.d < 4) SELECT src, label, d FROM r"
    ),
    "copies": (
        "WITH RECURSIVE r AS (SELECT src, dst, 1 AS d FROM g UNION ALL SELECT r.src, g.dst, r.d + 1 FROM r JOIN g "
        "ON r.dst = g.src WHERE r.d < 4) SELECT src, dst, d FROM r"
    ),
    "least values": (
        "WITH RECURSIVE d AS (SELECT x, MIN(c) AS c FROM (SELECT x, CAST(0 AS BIGINT) AS c FROM s UNION ALL "
        "SELECT g.dst, d.c + 1 FROM d JOIN g ON d.x = g.src) q GROUP BY x) SELECT x, c FROM d"
    ),
    "the node before": (
        "WITH RECURSIVE d AS (SELECT x, MIN(c) AS c, MIN_BY(via, c) AS via FROM (SELECT x, CAST(0 AS BIGINT) AS c, "
        "x AS via FROM s UNION ALL SELECT g.dst, d.c + 1, d.x FROM d JOIN g ON d.x = g.src) q GROUP BY x) "
        "SELECT x, c, via FROM d"
    ),
    "the nearest start": (
        "WITH RECURSIVE d AS (SELECT x, MIN(c) AS c, MIN_BY(start, c) AS start FROM (SELECT x, CAST(0 AS BIGINT) AS c, "
        "x AS start FROM s UNION ALL SELECT g.dst, d.c + 1, d.start FROM d JOIN g ON d.x = g.src) q GROUP BY x) "
        "SELECT x, c, start FROM d"
    ),
    "a column that no step reads": (
        "WITH RECURSIVE r(x, label) AS (SELECT dst, label FROM t UNION SELECT t.dst, t.label FROM r JOIN t ON "
        "r.x = t.src) SELECT x, label FROM r"
    ),
    "copies with a column that no step reads": (
        "WITH RECURSIVE r(x, label, d) AS (SELECT dst, label, 1 FROM t UNION ALL SELECT t.dst, t.label, r.d + 1 FROM r "
        "JOIN t ON r.x = t.src WHERE r.d < 4) SELECT x, label, d FROM r"
    ),
    "greatest decimals": (
        "WITH RECURSIVE d AS (SELECT x, label, MAX(c) AS c FROM (SELECT dst AS x, label, price AS c FROM t UNION ALL "
        "SELECT t.dst, t.label, LEAST(d.c, t.price) FROM d JOIN t ON d.x = t.src AND d.label = t.label WHERE "
        "d.c IS NOT NULL AND t.price IS NOT NULL) q GROUP BY x, label) "
        "SELECT x, label, c FROM d"
    ),
    "a condition over both": (
        "WITH RECURSIVE r AS (SELECT src, dst FROM g UNION SELECT r.src, g.dst FROM r JOIN g ON r.dst = g.src "
        "WHERE r.src + g.dst <> 5 AND g.dst > 0) SELECT src, dst FROM r"
    ),
    "groups of a recursion": f"WITH RECURSIVE {CLOSURE} SELECT src, COUNT(*) AS n, SUM(dst) AS d FROM r GROUP BY src",
    "a join of a recursion": f"WITH RECURSIVE {REACHED} SELECT DISTINCT r.x, label FROM r JOIN t ON r.x = t.src",
    "first rows of a group": (
        "WITH RECURSIVE r(a, n) AS (SELECT src, COUNT(*) AS n FROM g GROUP BY src UNION "
        "SELECT dst, n FROM r JOIN g ON r.a = g.src) SELECT a, n FROM r"
    ),
    "a recursion that reads another one": (
        f"WITH RECURSIVE {CLOSURE}, q(x) AS (SELECT x FROM s UNION SELECT r.dst FROM q JOIN r ON q.x = r.src) "
        "SELECT q.x FROM q"
    ),
    "rows that are read twice": (
        "WITH RECURSIVE r AS (SELECT src, dst FROM g WHERE src < dst UNION "
        "SELECT a.src, b.dst FROM r a JOIN r b ON a.dst = b.src) SELECT src, dst FROM r"
    ),
    "a negation": (
        "WITH RECURSIVE r AS (SELECT src, dst FROM g UNION SELECT r.src, g.dst FROM r JOIN g ON r.dst = g.src "
        "WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.x = g.dst)) SELECT src, dst FROM r"
    ),
}


def row_of(table: str, random: Random, far: int = 7) -> tuple[object, ...]:
    """Returns a random row of a table; few edges make a graph of this size connected."""
    row: tuple[object, ...] = (random.randrange(far), random.randrange(far))
    if table == "s":
        row = row[:1]
    elif table == "t":
        row = (*row, random.choice("abc"), random.randrange(9))
    return tuple(None if random.random() < 0.04 else value for value in row)


def changes_of(both: Stepwise, table: str, random: Random) -> Changes:
    """Returns random changes of a table: its rows become about as many as a graph has nodes."""
    there = list(both.database.rows[table].elements())
    gone = [(row, -1) for row in random.sample(there, min(max(random.randrange(3), len(there) - 15), len(there)))]
    return gone + [(row_of(table, random), 1) for _ in range(random.choice((0, 1, 2, 5)))]


def check(both: Stepwise) -> None:
    """Compares the result with DuckDB's, unless the recursion has MIN or MAX, whose form is another one there, or reads
    its rows twice: DuckDB joins only the rows of the last round with each other."""
    if "GROUP BY x" not in both.query and both.query != QUERIES["rows that are read twice"]:
        both.is_duckdbs()


@pytest.mark.parametrize(("kind", "on_missing"), by_turns(QUERIES, ("ignore", "trust", "raise")))
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_batches_are_those_of_an_engine_that_takes_them_step_by_step(seed: int, kind: str, on_missing: str) -> None:
    query = QUERIES[kind]
    random = Random(f"{seed} {kind} {on_missing}")
    both = Stepwise(query, {name: of for name, of in TABLES.items() if f" {name}" in query}, on_missing=on_missing)
    for number in turns(12, 40):
        batch = {table: changes_of(both, table, random) for table in both.database.schema}
        batch = {table: changes for table, changes in batch.items() if changes}
        if batch:
            if number % 3 == 1:
                both.aborted(batch, read=number % 2)
            both.apply(batch, deltas=number % 6 != 5, dicts=random.random() < 0.3)
            check(both)
    done = both.results[group_batch.DONE] + both.results[kernels.MESSAGE_TOO_LARGE]
    assert done > both.results.total() // 2, both.results
    both.apply({table: changes for table, changes in both.database.everything(-1).items() if changes})
    assert not both.view.to_table().num_rows


@pytest.mark.parametrize(
    ("kind", "of"),
    by_turns(
        (
            "closure",
            "two steps",
            "texts and decimals",
            "computed columns",
            "least values",
            "copies",
            "the node before",
            "a column that no step reads",
            "copies with a column that no step reads",
        ),
        ("rows", "rounds", "words", "buffers"),
    ),
)
def test_a_recursion_goes_on_in_steps_wherever_a_call_has_no_room(
    kind: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    little_room(monkeypatch)
    if of == "rows":
        monkeypatch.setattr(rounds, "_ROWS", 4)
        monkeypatch.setattr(rounds, "_ROWS_PER_CHANGE", 0)
    elif of == "rounds":
        monkeypatch.setattr(rounds, "_ROUNDS", 2)
    elif of == "words":
        monkeypatch.setattr(rounds, "_MORE_WORDS", 0)
    else:
        small_buffers(monkeypatch, 24)
    query, random = QUERIES[kind], Random(kind)
    both = Stepwise(query, {name: of for name, of in TABLES.items() if f" {name}" in query})
    for number in range(8):
        batch = {table: changes_of(both, table, random) for table in both.database.schema}
        for i in range(6 * number, 6 * number + 9):
            batch.get("g", []).append(((i, i + 1), 1))
            batch.get("t", []).append(((i, i + 1, "a", i % 5), 1))
        batch.get("s", []).append(((6 * number,), 1))
        if number % 4 == 3:
            both.aborted(batch, read=1)
        both.apply(batch)
        check(both)
    stopped = (kernels.ROUNDS_STOPPED, kernels.JOIN_STOPPED, kernels.JOIN_ROWS_PENDING)
    assert sum(both.results[why] for why in stopped) > 2, both.results


def test_a_budget_that_is_used_up_in_a_round_refuses_the_batch() -> None:
    both = Stepwise(QUERIES["closure"], {"g": TABLES["g"]}, memory_budget=80_000_000)
    more: Changes = [((-i, 1 - i), 1) for i in range(1, 30)]
    both.apply([((i, i + 1), 1) for i in range(30)])
    refused = refusals(both, more, range(0, 60_000, 3_000))
    assert 2 < refused < 20
    assert both.results[kernels.ROUNDS_STOPPED], both.results
