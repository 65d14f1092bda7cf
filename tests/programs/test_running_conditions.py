"""Conditions on correlated sums over an order are slices: after every batch the result is what DuckDB says."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

import crown
import plans
from crown.errors import ChangeError
from plans.program import Program
from plans.programs.stages import BandStage, SliceStage
from plans.show import programs
from tests.marks import by_turns, every, seeds, turns
from tests.oracles.database import Row
from tests.plans.expressions import evaluator
from tests.programs.driver import Driver

SCHEMA = {
    "r": {"id": "int64", "g": "int64", "o": "int64", "v": "int64"},
    "s": {"id": "int64", "g": "int64", "o": "int64", "v": "int64"},
    "d": {"id": "int64", "o": "decimal(6,1)", "v": "decimal(8,2)"},
}
SUM = "(SELECT SUM(y.v) FROM {0} y WHERE y.o {1} x.o)"
ALL = "(SELECT SUM(z.v) FROM r z)"
SLICED = {
    "less": f"SELECT x.id FROM r x WHERE {SUM.format('r', '>')} < 0.25 * {ALL}",
    "not more": f"SELECT x.id FROM r x WHERE 0.5 * {ALL} >= {SUM.format('r', '>=')}",
    "more": f"SELECT SUM(x.v) AS s FROM r x WHERE {SUM.format('r', '<')} > 0.3 * {ALL} + 1",
    "not less": f"SELECT x.id, x.o FROM r x WHERE {SUM.format('r', '<=')} >= {ALL} - 5",
    "a number": f"SELECT x.id FROM r x WHERE {SUM.format('r', '>')} < 7",
    "another table": f"SELECT x.id FROM r x WHERE x.v > 0 AND {SUM.format('s', '>=')} < {ALL}",
    "zero": f"SELECT x.id FROM r x WHERE COALESCE({SUM.format('r', '>')}, 0) <= 0.5 * {ALL}",
    "count": "SELECT x.id FROM r x WHERE (SELECT COUNT(*) FROM r y WHERE y.o > x.o AND y.g = x.g) < 3",
    "count of values": "SELECT x.id FROM r x WHERE (SELECT COUNT(y.v) FROM r y WHERE y.o < x.o) >= 4",
    "filter": "SELECT x.id FROM r x WHERE (SELECT SUM(y.v) FILTER (WHERE y.v > 2) FROM r y WHERE y.o > x.o) <= 0.3 * "
    f"{ALL}",
    "count of a filter": "SELECT x.id FROM r x WHERE (SELECT COUNT(y.g) FILTER (WHERE y.v > 2) FROM r y WHERE y.o >= "
    "x.o) < 3",
    "by group": "SELECT x.id, x.g FROM r x WHERE (SELECT SUM(y.v) FROM r y WHERE y.o > x.o AND y.g = x.g) < "
    "0.5 * (SELECT SUM(z.v) FROM r z WHERE z.g = x.g)",
    "one bound for all groups": "SELECT x.id FROM r x WHERE (SELECT SUM(y.v) FROM s y WHERE y.o > x.o AND y.g = x.g) "
    f"> 0.1 * {ALL}",
    "joined": f"SELECT x.id, t.id AS t FROM r x JOIN s t ON t.g = x.g WHERE {SUM.format('r', '>')} < 6 AND "
    f"{SUM.format('s', '<')} < {ALL}",
    "an average": "SELECT x.id FROM r x WHERE (SELECT AVG(y.v) FROM r y WHERE y.o > x.o) < 3",
    "an average by group": "SELECT x.id FROM r x WHERE 2.0 <= (SELECT AVG(y.v) FILTER (WHERE y.v <> 4) FROM r y WHERE "
    "y.o <= x.o AND y.g = x.g)",
    "decimals": "SELECT x.id FROM d x WHERE (SELECT SUM(y.v) FROM d y WHERE y.o > x.o) <= 0.333 * (SELECT SUM(z.v) "
    "FROM d z)",
}
OTHERS = {
    "of the row": "SELECT x.id FROM r x WHERE (SELECT SUM(y.v) FROM r y WHERE y.o > x.o) < x.v",
    "shown": "SELECT id, s FROM (SELECT x.id, (SELECT SUM(y.v) FROM r y WHERE y.o > x.o) AS s FROM r x) WHERE s < 7",
    "a double": "SELECT x.id FROM r x WHERE (SELECT SUM(y.v) FROM r y WHERE y.o > x.o) < 0.5e0 * (SELECT SUM(z.v) "
    "FROM r z)",
    "distinct": "SELECT x.id FROM r x WHERE (SELECT SUM(DISTINCT y.v) FROM r y WHERE y.o > x.o) < 7",
    "two comparisons": "SELECT x.id FROM r x WHERE (SELECT SUM(y.v) FROM r y WHERE y.o > x.o AND y.v > x.v) < 7",
    "an average of decimals": "SELECT x.id FROM d x WHERE (SELECT AVG(y.v) FROM d y WHERE y.o > x.o) < 1",
    "an average and a fraction": "SELECT x.id FROM r x WHERE (SELECT AVG(y.v) FROM r y WHERE y.o > x.o) < 0.1",
    "an average or a number": "SELECT x.id FROM r x WHERE COALESCE((SELECT AVG(y.v) FROM r y WHERE y.o > x.o), 0) < 3",
}


def rows_of(random: Random, table: str, turn: int, low: int) -> list[Row]:
    """Returns new rows, some with NULLs, and with values from ``low`` on."""

    def maybe(value: int) -> int | None:
        return None if random.random() < 0.1 else value

    made: list[Row] = []
    for i in range(random.randint(1, 12)):
        group, at, value = maybe(random.randrange(3)), maybe(random.randrange(14)), maybe(random.randint(low, 9))
        if table == "d":
            made.append((turn * 100 + i, *(None if n is None else Decimal(n) / 4 for n in (at, value))))
        else:
            made.append((turn * 100 + i, group, at, value))
    if table == "d":
        made = [(row[0], None if row[1] is None else Decimal(row[1]).quantize(Decimal("0.1")), row[2]) for row in made]
    return made


@pytest.mark.parametrize(("name", "low"), by_turns(SLICED, (0, -9)))
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_conditions_on_running_sums_are_what_duckdb_says(name: str, low: int, seed: int) -> None:
    random, made = Random(seed), plans.program(SLICED[name], SCHEMA)
    assert any(isinstance(stage, SliceStage) for stage in made.stages)
    assert not any(isinstance(stage, BandStage) for stage in made.stages)
    assert made == Program.from_json(made.to_json())
    driver = Driver(SLICED[name], made, SCHEMA)
    for turn in turns(5, 8):
        batch: dict[str, list[tuple[Row, int]]] = {}
        for table, rows in driver.database.rows.items():
            gone = random.sample(list(rows.elements()), rows.total() // random.choice([2, 3]))
            new = rows_of(random, table, turn, low)
            batch[table] = [*((row, -1) for row in gone), *((row, 1) for row in new)]
        found = driver.step(batch, again=turn in (2, 5))
        assert evaluator.results(made, driver.database) == found
    driver.remove_everything()


@every(OTHERS)
def test_other_conditions_on_sums_are_no_slices(name: str) -> None:
    assert not any(isinstance(stage, SliceStage) for stage in plans.program(OTHERS[name], SCHEMA).stages)


FINANCE = {
    "vwap": f"SELECT SUM(x.o * x.v) AS s FROM r x WHERE {SUM.format('r', '>')} < 0.25 * {ALL}",
    "mst": f"SELECT SUM(x.o * x.v - y.o * y.v) AS s FROM r x, s y WHERE {SUM.format('r', '>')} < 0.25 * {ALL} AND "
    "(SELECT SUM(z.v) FROM s z WHERE z.o > y.o) < 0.25 * (SELECT SUM(z.v) FROM s z)",
}


@pytest.mark.parametrize("name", FINANCE)
def test_a_change_costs_the_logarithm_and_the_rows_that_pass_the_bound(name: str) -> None:
    cost, random = {}, Random(3)
    for n in (500, 4_000, 32_000):
        view = crown.view(FINANCE[name], SCHEMA)
        view.apply({table: _book(random, n, 0) for table in ("r", "s")})
        steps = _steps(view)
        for i in range(60):
            view.apply({table: _book(random, 1, n + i) for table in ("r", "s")})
        cost[n] = (_steps(view) - steps) / 60
        assert cost[n] <= len(name) * (20 * math.log2(n) + 60)
    assert cost[32_000] - cost[4_000] <= cost[4_000] - cost[500] + 40


def _book(random: Random, n: int, first: int) -> pa.Table:
    return pa.table(
        {
            "id": range(first, first + n),
            "g": [0] * n,
            "o": [random.randrange(10**6) for _ in range(n)],
            "v": [random.randint(1, 1000) for _ in range(n)],
        }
    )


def _steps(view: crown.View) -> int:
    return sum(stage.get("steps", 0) for stage in view.stats()["stages"])


def test_a_sum_that_leaves_its_type_is_named_as_the_query_has_it() -> None:
    view = crown.view(FINANCE["vwap"], SCHEMA)
    with pytest.raises(ChangeError, match=r"the group y\.o=1, column 'SUM\(y\.v\)': the sum is no int64"):
        view.update({"r": [(1, 0, 1, 2**62), (2, 0, 1, 2**62)]})
    view.check_invariants()


def test_explain_says_what_a_slice_costs() -> None:
    told = programs.text(plans.program(FINANCE["vwap"], SCHEMA))
    assert "while SUM(y.v) of the rows before, by y.o DESC NULLS FIRST < bound" in told
    assert "O(1) per row that is selected or no longer is" in told
