"""Window functions that kernels compute from frames: kernels = twin after every batch, for random functions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from crown.kernels.memory import arena as A
from crown.stages.over import framed
from crown.stages.over.stage import Over
from crown.stages.protocol import Part
from plans.schema import Column, Table
from tests.marks import seeds
from tests.models.over import over
from tests.models.program import enter
from tests.oracles.database import Database
from tests.oracles.expectation import difference
from tests.stages import random_groups, random_windows
from tests.stages.harness import bag_of, net_of, parts, scanned

Row = tuple[Any, ...]


def drawn(random: Random, columns: tuple[Column, ...], part: Part) -> Over:
    """Returns a stage with random functions that kernels compute. One of them, at least, is neither a running value nor
    picks a row."""
    while True:
        planned = random_windows.stage(random, columns)
        functions = [
            one
            for one in planned.functions
            if not one.gathered and not (one.frame and (one.frame.exclude or one.frame.unit == "groups"))
        ]
        if functions and not all(one.from_row or one.running for one in functions):
            (trial,) = parts(1)
            planned = replace(planned, functions=tuple(functions))
            if not Over(planned, columns, trial)._not_framed:
                return Over(planned, columns, part)


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_random_functions_are_those_of_the_twin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, (part,) = Random(seed), parts(1)
    monkeypatch.setattr(framed, "_CHUNK", random.choice([1, 3, 256]))
    monkeypatch.setattr(framed, "_MEASURED", random.choice([0, 9, 1_000]))
    columns = random_groups.relation(random)
    stage = drawn(random, columns, part)
    planned, empty = stage.stage, int(part.arena[A.H_LIVE])
    database, result = Database({"r": Table("r", columns)}), Counter[Row]()
    for batch in random_groups.batches(random, columns, 12, special=True):
        net = net_of(batch, columns, part)
        if random.random() < 0.3:
            stage.apply([net])
            stage.undo([net])
            assert scanned(stage, part) == result
        delta = bag_of([stage.apply([net])], stage.columns, part)
        database.apply({"r": list(batch.items())})
        wanted = over(planned, enter(planned.feed, database.rows["r"], columns))
        assert delta == difference(wanted, result)
        result = wanted
        stage.check_invariants()
        assert scanned(stage, part) == wanted
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"
