"""Random joins along foreign keys: the tree enumerates what keys determine, and the answers stay those of DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from plans import program
from plans.program import Program
from plans.programs.stages import JoinStage
from tests.marks import seeds, turns
from tests.programs.driver import Driver

Row = tuple[Any, ...]
VALUES = ("p", "q", None)


def schema_of(parents: list[int]) -> dict[str, Any]:
    """Table i with key `k`, the key `f` of a row of table `parents[i]`, and a value. The last table has no key."""
    columns = {"k": "int64", "f": "int64", "v": "string", "x": "int64"}
    keyed = [{"columns": columns, "key": ["k"]}] * (len(parents) - 1)
    return {f"t{i}": table for i, table in enumerate([*keyed, columns])}


def query_of(random: Random, parents: list[int]) -> str:
    aliases = [f"t{i}" for i in range(len(parents))]
    on = " AND ".join(f"t{i}.f = t{p}.k" for i, p in enumerate(parents) if p >= 0)
    names = random.sample([f"{alias}.{column}" for alias in aliases for column in "kfv"], random.randint(1, 3))
    shown = ", ".join(f"{name} AS c{i}" for i, name in enumerate(names))
    tables = f"FROM {', '.join(aliases)} WHERE {on}"
    summed = f"SUM({random.choice(aliases)}.x) AS s, COUNT(*) AS n"
    kind = random.choice(("DISTINCT", "ALL", "GROUP"))
    if kind == "GROUP":
        return f"SELECT {shown}, {summed} {tables} GROUP BY {', '.join(names)}"
    return f"SELECT {'DISTINCT ' if kind == 'DISTINCT' else ''}{shown} {tables}"


class Rows:
    """Rows of tables whose keys hold, changed at random."""

    def __init__(self, random: Random, parents: list[int]) -> None:
        self._random, self._keyed = random, len(parents) - 1
        self._rows: list[dict[int, Row]] = [{} for _ in parents]
        self._next = 100

    def batch(self) -> dict[str, list[tuple[Row, int]]]:
        """Replaces, inserts and deletes rows of some tables."""
        random, changes = self._random, {}
        for i in random.sample(range(len(self._rows)), random.randint(1, len(self._rows))):
            rows, found = self._rows[i], []
            for _ in range(random.randint(0, 9)):
                number = random.randrange(7) if i < self._keyed else random.randrange(20)
                if number in rows:
                    found.append((rows.pop(number), -1))
                if random.random() < 0.6:
                    key = number if i < self._keyed else random.randrange(4)
                    foreign = random.choice((None, *range(7)))
                    rows[number] = (key, foreign, random.choice(VALUES), random.randrange(-3, 4))
                    found.append((rows[number], 1))
            changes[f"t{i}"] = found
        return changes


def enumerates_more(made: Program) -> bool:
    """Whether a join enumerates attributes because keys determine them."""
    plans = [stage.plan for stage in made.stages if isinstance(stage, JoinStage)]
    return any("a key fixes them" in note for plan in plans for note in plan.notes)


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
@pytest.mark.parametrize("seed", seeds(20, 40))
def test_random_joins_along_foreign_keys(seed: int, on_missing: str, tmp_path: Path) -> None:
    random = Random(seed)
    parents = [-1, *(random.randrange(i) for i in range(1, random.randint(2, 5)))]
    tables, query = schema_of(parents), query_of(random, parents)
    driver = Driver(query, program(query, tables), tables, on_missing=on_missing)
    rows = Rows(random, parents)
    for turn in turns(7, 9):
        driver.step(rows.batch(), again=turn in (3, 6), saved=tmp_path / "state")
    driver.remove_everything()


def test_the_campaign_has_trees_that_enumerate_what_keys_determine() -> None:
    found = 0
    for seed in range(40):
        random = Random(seed)
        parents = [-1, *(random.randrange(i) for i in range(1, random.randint(2, 5)))]
        found += enumerates_more(program(query_of(random, parents), schema_of(parents)))
    assert found >= 10
