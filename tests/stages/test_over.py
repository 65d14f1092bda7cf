"""Window functions after every batch: kernels = twin = DuckDB, for random functions, frames, partitions, streams."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from crown.kernels import arena as A
from crown.reference.over import over
from crown.reference.program import fed
from crown.stages.over import Over
from crown.stages.protocol import Part
from plans.schema import Table
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database
from tests.oracles.expectation import difference
from tests.stages import random_groups, random_windows
from tests.stages.harness import bag_of, net_of, parts

Row = tuple[Any, ...]


def found_in(stage: Over, part: Part) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for net in stage.scan():
        found.update(bag_of([net.net()], stage.columns, part))
    return found


@pytest.mark.parametrize("seed", seeds(25, 400))
def test_random_window_functions_are_those_of_the_twin_and_of_duckdb(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    planned = random_windows.stage(random, columns)
    (part,) = parts(1)
    stage = Over(planned, columns, part)
    empty = int(part.arena[A.H_LIVE])
    query = random_windows.sql_of(planned)
    database = Database({"r": Table("r", columns)})
    result: Counter[Row] = Counter()
    for batch in random_groups.batches(random, columns, 12, special=True):
        delta = bag_of([stage.apply([net_of(batch, columns, part)])], stage.columns, part)
        database.apply({"r": list(batch.items())})
        wanted = over(planned, fed(planned.feed, database.rows["r"], columns))
        assert delta == difference(wanted, result)
        result = wanted
        stage.check_invariants()
        assert found_in(stage, part) == wanted
        assert query is None or wanted == duck.results(query, database), query
        for row in random.sample(sorted(wanted, key=repr), min(3, len(wanted))):
            codes = net_of({row: 1}, stage.columns, part).rows[0]
            assert stage.multiplicity(codes) == wanted[row]
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"
