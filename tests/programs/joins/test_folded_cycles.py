"""Cycles that declared keys undo: which relations are joined first, and that nothing changes but the way."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import plans
from plans.program import Program
from plans.programs.stages import JoinStage
from plans.schema import Schema
from tests.oracles.database import Database
from tests.programs.driver import Driver

COLUMNS = {
    "L": {"ok": "int64", "sk": "int64", "x": "int64"},
    "O": {"ok": "int64", "ck": "int64"},
    "C": {"ck": "int64", "nk": "int64"},
    "S": {"sk": "int64", "nk": "int64"},
    "N": {"nk": "int64", "name": "string"},
}
KEYS = {"O": ("ok",), "C": ("ck",), "S": ("sk",), "N": ("nk",)}
SCHEMA = Schema.of({name: {"columns": of, "key": KEYS.get(name, ())} for name, of in COLUMNS.items()})
CYCLE = "FROM L JOIN O ON L.ok = O.ok JOIN C ON O.ck = C.ck JOIN S ON L.sk = S.sk"
SOME = " WHERE EXISTS (SELECT 1 FROM N WHERE N.nk = S.nk)"
NATION = "JOIN N ON N.nk = C.nk AND N.nk = S.nk"
FOLDED = {
    f"SELECT S.nk, SUM(L.x) AS s, COUNT(*) AS n {CYCLE} AND S.nk = C.nk GROUP BY S.nk": "L_O_C",
    f"SELECT L.x, O.ck {CYCLE} AND S.nk = C.nk": "L_O_C",
    f"SELECT N.name, MAX(L.x) AS m, AVG(L.x * S.sk) AS a {CYCLE} {NATION} GROUP BY N.name": "L_O_C",
    f"SELECT COUNT(*) AS n {CYCLE} AND S.nk IS NOT DISTINCT FROM C.nk WHERE L.x < C.ck OR S.sk > 1": "L_O_C",
    f"SELECT O.ck, COUNT(*) AS n {CYCLE} AND S.nk = C.nk {SOME} GROUP BY O.ck": "L_O_C",
    f"SELECT N.name, COUNT(L.x) AS n {CYCLE} AND S.nk = C.nk LEFT JOIN N ON N.nk = S.nk GROUP BY N.name": "L_O_C",
    "SELECT COUNT(*) AS n FROM L x, L y, O, S WHERE x.ok = O.ok AND y.ok = O.ok AND x.sk = S.sk AND y.sk = S.nk": "x_S",
    "SELECT COUNT(*) AS n FROM O x, O y, O z WHERE x.ok = y.ck AND y.ok = z.ck AND z.ok = x.ck AND x.ck > 0": "x_y",
}


def bags_in(program: Program) -> bool:
    joins = [stage for stage in program.stages if isinstance(stage, JoinStage)]
    return any(node.bag is not None for stage in joins for node in stage.plan.nodes)


def notes_of(program: Program) -> str:
    return " ".join(n for s in program.stages if isinstance(s, JoinStage) for n in s.plan.notes)


@pytest.mark.parametrize("query", FOLDED)
def test_a_cycle_that_keys_undo_has_no_bag(query: str) -> None:
    made = plans.program(query, SCHEMA)
    assert not bags_in(made)
    assert f"cycle: {FOLDED[query].replace('_', ', ')} are joined first, by declared keys" in notes_of(made)
    assert bags_in(plans.program(query, COLUMNS)), "without keys"


@pytest.mark.parametrize("query", FOLDED)
def test_a_folded_cycle_gives_what_duckdb_gives(query: str) -> None:
    random, driver = Random(query), Driver(query, plans.program(query, SCHEMA), Database(SCHEMA))
    database = driver.database
    for turn in range(9):
        batch = {}
        for name in random.sample(sorted(COLUMNS), random.randint(1, 5)):
            present = sorted(database.rows[name].elements(), key=repr)
            changes = [(row, -1) for row in random.sample(present, min(len(present), random.randint(0, 3)))]
            left = Counter(present) - Counter(row for row, _ in changes)
            for _ in range(random.randint(0, 9)):
                row = tuple(
                    random.choice(("p", "q") if column == "name" else (0, 1, 2, 3, None)) for column in COLUMNS[name]
                )
                if name in KEYS and (row[0] is None or any(row[0] == other[0] for other in left)):
                    continue
                left[row] += 1
                changes.append((row, 1))
            batch[name] = changes
        driver.step(batch, again=turn % 3 == 2)
    driver.remove_everything()


def test_what_is_folded_changes_as_often_as_all_of_it_together() -> None:
    query = next(iter(FOLDED))
    made = plans.program(query, SCHEMA, rates={"L": 5, "S": 2})
    (last,) = (s for s in made.stages if isinstance(s, JoinStage) and s.mode == "payload")
    assert last.plan.rates["L_O_C"] == 7, "5, and 1 each for O and C"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT DISTINCT L.x, S.nk {CYCLE} AND S.nk = C.nk",  # a set has one plan, with its bag
        "SELECT COUNT(*) AS n FROM L x, L y, L z WHERE x.ok = y.sk AND y.ok = z.sk AND z.ok = x.sk",
    ],
)
def test_other_cycles_keep_their_bags(query: str) -> None:
    made = plans.program(query, SCHEMA)
    assert bags_in(made) or any(s.plan.count for s in made.stages if isinstance(s, JoinStage))
