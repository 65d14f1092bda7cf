"""ASOF JOIN after every batch: crown = DuckDB where one row is the nearest, and its definition where several are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from operator import ge, gt, le, lt
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
import plans
from plans.errors import PlanError
from plans.program import Program
from plans.schema import Column, Table
from plans.search.cells.cuts import by_output
from tests.marks import every, seeds
from tests.oracles.database import Row
from tests.programs.driver import Driver

NAN = float("nan")
TIMES: dict[str, tuple[Any, ...]] = {
    "int64": (*range(8), -(2**62), 2**62, None),
    "float64": (0.5, -1.5, 2.0, 3.25, float("inf"), float("-inf"), NAN, None),
    "date": (*(date(2024, 2, day) for day in range(25, 30)), None),
    "timestamp_ntz": (*(datetime(2024, 1, 1, 0, 0, second) for second in range(6)), None),
    "string": ("", "a", "a and more", "b", "é", "zzzzzzzz", None),
}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt}
QUOTES = {"trades": {"k": "int64", "at": "int64", "x": "int64"}, "quotes": {"k": "int64", "at": "int64", "p": "int64"}}


@pytest.mark.parametrize("seed", seeds(8, 300))
def test_random_streams_have_the_partners_that_duckdb_finds(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    type_ = random.choice(list(TIMES))
    tables = {
        "l": Table("l", (Column("k", "string"), Column("at", type_), Column("x", "int64"))),
        "r": Table("r", (Column("k", "string"), Column("at", type_), Column("p", "float64"), Column("s", "string"))),
    }
    keyed, kind = random.choice(["l.k = r.k AND ", ""]), random.choice(["", "LEFT "])
    on = f"{keyed}l.at {random.choice(list(OPERATORS))} r.at"
    query = f"SELECT l.k, l.at, x, r.k AS rk, r.at AS seen, p, s FROM l ASOF {kind}JOIN r ON {on}"
    if random.random() < 0.3:
        query = f"SELECT l.k, COUNT(*) AS n, MAX(r.at) AS m FROM l ASOF {kind}JOIN r ON {on} GROUP BY l.k"
    driver = Driver(query, plans.program(query, tables), tables)
    used: dict[Row, Row] = {}
    for turn in range(8):
        left, right = driver.database.rows["l"], driver.database.rows["r"]
        batch: dict[str, list[tuple[Row, int]]] = {
            "l": [(row, -1) for row in random.sample(list(left.elements()), left.total() // 3)],
            "r": [(row, -1) for row in random.sample(list(right), len(right) // 3)],
        }
        for row, _ in batch["r"]:
            del used[_place(row, keyed)]
        for _ in range(random.randrange(8)):
            row = (random.choice(["a", "b", None]), random.choice(TIMES[type_]), random.randrange(3))
            batch["l"].append((row, random.choice([1, 1, 2])))
            other = (random.choice(["a", "b", None]), random.choice(TIMES[type_]), random.choice([0.5, NAN, None]), "q")
            if _place(other, keyed) not in used:
                used[_place(other, keyed)] = other
                batch["r"].append((other, 1))
        driver.step(batch, again=turn % 3 == 0, saved=tmp_path / "state" if turn == 6 else None)
    driver.remove_everything()


def _place(row: Row, keyed: str) -> Row:
    """What no two right rows may have in common, so that one is the nearest."""
    return (row[0] if keyed else "", str(row[1]))


@pytest.mark.parametrize("sign", OPERATORS)
def test_of_several_that_are_the_nearest_the_last_or_the_first_by_all_columns_is_taken(sign: str) -> None:
    random = Random(sign)
    view = crown.view(f"SELECT x, t.at, p FROM trades t ASOF JOIN quotes q ON t.k = q.k AND t.at {sign} q.at", QUOTES)
    rows: dict[str, Counter[Row]] = {"trades": Counter(), "quotes": Counter()}
    total: Counter[Row] = Counter()
    for _ in range(40):
        batch = {}
        for name, there in rows.items():
            gone = [(*row, -1) for row in random.sample(sorted(there.elements()), there.total() // 4)]
            new = [(random.randrange(2), random.randrange(4), random.randrange(5), 1) for _ in range(3)]
            for *row, weight in (*gone, *new):
                there[tuple(row)] += weight
            rows[name] = +there
            names = [*QUOTES[name], "_weight"]
            batch[name] = [dict(zip(names, row, strict=True)) for row in (*gone, *new)]
        for change in view.apply(batch).to_pylist():
            total[change["x"], change["at"], change["p"]] += change["_weight"]
        wanted: Counter[Row] = Counter()
        for (k, at, x), copies in rows["trades"].items():
            fit = sorted((q, p) for (key, q, p) in rows["quotes"] if key == k and OPERATORS[sign](at, q))
            if fit:
                wanted[x, at, (fit[-1] if sign in (">", ">=") else fit[0])[1]] += copies
        assert +total == wanted == Counter(map(tuple, (row.values() for row in view.to_table().to_pylist())))
        view.check_invariants()


def test_a_change_costs_the_logarithm_and_the_rows_that_it_is_the_partner_of() -> None:
    for n in (1_000, 8_000, 32_000):
        view = crown.view("SELECT x, p FROM trades t ASOF JOIN quotes q ON t.k = q.k AND t.at >= q.at", QUOTES)
        view.update({"trades": [(0, i, i) for i in range(n)], "quotes": [(0, i, i) for i in range(0, n, 10)]})
        before, random = _steps(view), Random(n)
        for _ in range(100):
            at = random.randrange(10, n)
            assert len(view.apply({"trades": [(0, at, -at)]})) == 1
            changes = len(view.apply({"quotes": [(0, at, -1)]}))
            assert changes <= 2 * 25
        assert _steps(view) - before <= 200 * (40 * math.log2(n) + 100)


def _steps(view: crown.View) -> int:
    return sum(stage.get("steps", 0) for stage in view.stats()["stages"])


def test_the_ways_to_write_it_are_one_plan() -> None:
    def stages(join: str, schema: Any = QUOTES, before: str = "", **options: Any) -> Any:
        query = f"SELECT x, p FROM trades t {before}ASOF {join}"
        return plans.program(query, schema, **options).stages

    inner = stages("JOIN quotes q ON t.k = q.k AND t.at >= q.at")
    assert inner == stages("JOIN quotes q ON q.at <= t.at AND q.k = t.k")
    assert inner == stages("JOIN quotes q USING (k, at)")
    outer = stages("LEFT JOIN quotes q ON t.k = q.k AND t.at >= q.at")
    assert outer != inner
    matches = "JOIN quotes q MATCH_CONDITION (t.at >= q.at) ON t.k = q.k"
    assert inner == stages(matches) == stages(matches, before="INNER ", dialect="ansi")
    assert outer == stages(matches, before="LEFT ") == stages(matches, before="LEFT OUTER ")
    for dialect in ("snowflake", "duckdb"):
        assert outer == stages(matches, dialect=dialect)
        assert outer == stages("JOIN quotes q MATCH_CONDITION (q.at <= t.at) USING (k)", dialect=dialect)


def test_a_join_with_versions_is_one_with_the_last_that_begins_before() -> None:
    schema = QUOTES | {"quotes": {"columns": QUOTES["quotes"], "key": ["k", "at"]}}

    def stages(join: str) -> Any:
        return plans.program(f"SELECT t.k, x, p FROM trades t {join}", schema).stages

    inner = stages("ASOF JOIN quotes q ON t.k = q.k AND t.at >= q.at")
    assert inner == stages("JOIN quotes FOR SYSTEM_TIME AS OF t.at AS q ON t.k = q.k")
    assert inner == stages("JOIN quotes FOR SYSTEM_TIME AS OF t.at AS q USING (k)")
    outer = stages("ASOF LEFT JOIN quotes q ON t.k = q.k AND t.at - x >= q.at")
    assert outer == stages("LEFT JOIN quotes FOR SYSTEM_TIME AS OF t.at - x AS q ON q.k = t.k")


def test_a_column_may_be_called_match_condition() -> None:
    view = crown.view("SELECT match_condition AS m FROM r", {"r": {"match_condition": "int64"}})
    view.update({"r": [(3,)]})
    assert view.to_table().to_pylist() == [{"m": 3}]


def test_rows_are_cut_by_the_key_and_have_only_the_columns_that_are_read() -> None:
    query = "SELECT t.k, x, p FROM trades t ASOF JOIN quotes q ON t.k = q.k AND t.at >= q.at"
    wide = {name: {**columns, "unread": "string"} for name, columns in QUOTES.items()}
    program = plans.program(query, wide)
    cut = by_output(program)
    assert cut is not None
    assert cut.name == "k"
    assert "unread" not in str(program)
    assert "has the class" not in str(program)
    assert "up to the next row that can be matched" in " ".join(str(program).split())
    assert Program.from_json(program.to_json()) == program


@every(
    [
        ("ON t.k = q.k", "needs one condition with >=, >, <= or <, and has none"),
        ("ON t.at >= q.at AND t.x > q.p", "needs one condition with >=, >, <= or <, and has 2"),
        ("ON t.at >= q.at AND q.p > 3", "must be =, >=, >, <= or < of a value of the left side and one of the right"),
        (
            "ON t.at >= q.at AND t.k <> q.k",
            "must be =, >=, >, <= or < of a value of the left side and one of the right",
        ),
        ("ON t.at >= q.at OR t.k = q.k", "must be =, >=, >, <= or < of a value of the left side and one of the right"),
    ]
)
def test_other_conditions_are_refused(on: str, said: str) -> None:
    with pytest.raises(PlanError, match="ASOF JOIN") as caught:
        plans.program(f"SELECT x, p FROM trades t ASOF JOIN quotes q {on}", QUOTES)
    assert said in str(caught.value)


@every(
    [
        ("RIGHT JOIN quotes FOR SYSTEM_TIME AS OF t.at AS q ON t.k = q.k", "in this join", "use JOIN or LEFT JOIN"),
        (
            "JOIN trades FOR SYSTEM_TIME AS OF t.at AS q ON t.k = q.k",
            "a declared key, and q has none",
            "declare as key",
        ),
        ("JOIN quotes FOR SYSTEM_TIME AS OF t.at AS q ON t.k = q.k AND t.at = q.at", "except the time", "(k, at)"),
        ("JOIN quotes FOR SYSTEM_TIME AS OF t.at AS q ON t.k = q.k AND q.p > 1", "except the time", "into WHERE"),
        ("JOIN quotes FOR SYSTEM_TIME AS OF q.at AS q ON t.k = q.k", "unknown table or alias q", "the query has: t"),
        ("JOIN quotes FOR SYSTEM_TIME AS OF t.day AS q ON t.k = q.k", "cannot be compared", "CAST"),
        (
            "JOIN quotes FOR SYSTEM_TIME AS OF PROCTIME() AS q ON t.k = q.k",
            "with FOR SYSTEM_TIME AS OF",
            "the current rows",
        ),
        (
            "JOIN quotes AT (TIMESTAMP => '2026-01-01') AS q ON t.k = q.k",
            "a table with AT is not supported",
            "the current rows",
        ),
    ]
)
def test_what_a_join_with_versions_needs_is_said_with_its_place(join: str, said: str, hint: str) -> None:
    keyed = {"trades": QUOTES["trades"] | {"day": "date"}, "quotes": {"columns": QUOTES["quotes"], "key": ["k", "at"]}}
    with pytest.raises(PlanError) as caught:
        plans.program(f"SELECT t.x, q.k FROM trades t {join}", keyed)
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.position is not None
