"""Subqueries that are values and may have several rows: DuckDB raises an error exactly where a batch is refused."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from random import Random

import duckdb
import pytest

import crown
from crown.errors import SeveralRowsError
from plans.programs.stages import SingleStage
from tests.marks import seeds, turns
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.lowering.program_queries import TABLES
from tests.programs.results import added, rows_of

QUERIES = (
    "SELECT a, b FROM r WHERE b = (SELECT b FROM s WHERE c = 'p')",
    "SELECT a, (SELECT b FROM s WHERE c = 'p') AS v FROM r",
    "SELECT a, (SELECT DISTINCT b FROM s) AS v FROM r",
    "SELECT a, (SELECT s.c FROM s WHERE s.b = r.b) AS v FROM r",
    "SELECT a, (SELECT s.c FROM s WHERE s.b IS NOT DISTINCT FROM r.b) AS v FROM r",
    "SELECT a, (SELECT s.b FROM s WHERE s.b < r.b AND s.c = 'p') AS v FROM r",
    "SELECT a, (SELECT s.b + r.a FROM s WHERE s.b = r.b) AS v FROM r",
    "SELECT a, (SELECT DISTINCT c FROM s WHERE s.b = r.b) AS v FROM r",
    "SELECT a, (SELECT b FROM s GROUP BY b HAVING COUNT(*) > 1) AS v FROM r",
    "SELECT a, (SELECT c FROM s EXCEPT SELECT 'q' FROM u) AS v FROM r",
    "SELECT a, SUM(b) AS n FROM r GROUP BY a HAVING SUM(b) > (SELECT b FROM s WHERE c = 'q')",
    "SELECT DISTINCT a FROM r WHERE (SELECT s.c FROM s WHERE s.b = r.b) = 'p'",
    "SELECT SUM((SELECT s.b FROM s WHERE s.b = r.a AND c = 'p')) AS n FROM r",
    "SELECT r.a, v FROM r JOIN t ON r.b = t.k WHERE v >= (SELECT s.b FROM s JOIN u ON s.b = u.a WHERE s.b = r.a)",
)
VALUES = {"a": (0, 1, None), "b": (0, 1, 2, None), "c": ("p", "q", None), "v": (1, 2), "d": (None,), "x": (0.5,)}


def batch_of(random: Random, database: Database) -> dict[str, list[tuple[Row, int]]]:
    """Some deletes of rows that are there, and fewer inserts than those where there are many."""
    found = {}
    for name in database.schema:
        rows = list(database.rows[name].elements())
        changes = [(row, -1) for row in random.sample(rows, min(len(rows), random.randrange(3)))]
        if name == "t":
            free = [k for k in range(4) if k not in {row[0] for row in rows}]
            changes += [((k, random.choice(VALUES["v"]), None), 1) for k in free[: random.randrange(2)]]
        elif len(rows) < 5 or random.random() < 0.3:
            names = database.columns(name)
            changes += [(tuple(random.choice(VALUES[c]) for c in names), 1) for _ in range(random.randrange(3))]
        found[name] = changes
    return found


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_a_batch_is_refused_exactly_where_duckdb_finds_two_rows(query: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    view = crown.view(query, schema=TABLES)
    assert any(isinstance(stage, SingleStage) for stage in view.plan.stages)
    read = {table.name for table in view.plan.tables}
    current, told, refused = Database(TABLES), Counter[Row](), 0
    added(told, view.apply({}))  # an aggregate without GROUP BY has its row from the first batch that is accepted
    for number in turns(12, 20):
        batch = {name: rows for name, rows in batch_of(random, current).items() if name in read}
        after = deepcopy(current)
        after.apply(batch)
        given = {name: to_arrow(current.schema, name, rows) for name, rows in batch.items()}
        try:
            expected = duck.results(query, after)
        except duckdb.InvalidInputException:  # more than one row returned by a subquery
            with pytest.raises(SeveralRowsError, match=r"would have \d rows"):
                view.apply(given)
            refused += 1
            expected = duck.results(query, current)
        else:
            added(told, view.apply(given))
            current = after
        assert told == rows_of(view) == expected, number
        view.check_invariants()
        if number == 10:
            view.save(tmp_path / "view")
            view = crown.load(tmp_path / "view")
    assert refused <= number


def test_the_rows_are_named() -> None:
    schema = {"d": {"a": "int64"}, "r": {"k": "int64", "x": "string"}}
    view = crown.view("SELECT a, (SELECT x FROM r WHERE r.k = d.a) AS x FROM d", schema=schema)
    view.update({"d": [(1,), (1,)], "r": [(1, "one"), (2, "two"), (2, "too")]})
    message = (
        "a subquery that is used as a value would have 2 rows: {'x': 'one', 'k': 1, 'a': 1}, "
        "{'x': 'uno', 'k': 1, 'a': 1}; nothing was applied. Let the subquery return one row: use an aggregate, or "
        "ORDER BY ... LIMIT 1"
    )
    with pytest.raises(SeveralRowsError) as error:
        view.update({"r": [(1, "uno")]})
    assert str(error.value) == message
    with pytest.raises(SeveralRowsError, match=r"2 times {'x': 'one', 'k': 1, 'a': 1}"):
        view.update({"r": [(1, "one")]})
    with pytest.raises(SeveralRowsError, match=r"{'x': 'two', 'k': 2, 'a': 2}"):
        view.update({"d": [(2,)]})
    delta = view.apply({"r": [{"k": 1, "x": "one", "_weight": -1}, {"k": 1, "x": "uno", "_weight": 1}]})
    assert delta.to_pylist() == [{"a": 1, "x": "one", "_weight": -2}, {"a": 1, "x": "uno", "_weight": 2}]
    view.check_invariants()


def test_a_value_that_is_one_for_certain_is_not_watched() -> None:
    for value in ("SELECT MAX(b) FROM s", "SELECT v FROM t WHERE k = a", "SELECT b FROM s ORDER BY b LIMIT 1"):
        query = f"SELECT a, ({value}) AS m FROM r"
        assert not any(isinstance(stage, SingleStage) for stage in crown.view(query, schema=TABLES).plan.stages)
