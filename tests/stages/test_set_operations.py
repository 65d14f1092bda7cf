"""Pointwise and linear stages after every batch: kernels = twin = DuckDB, for random nests over two relations."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from crown.kernels.memory import arena as A
from crown.stages.linear import Linear
from crown.stages.pointwise import Pointwise
from plans.expressions.build import NULL, call, cast, col
from plans.plan import Output
from plans.programs.stages import Feed, Function, LinearStage, PointwiseStage
from plans.schema import Column, Table
from tests.models.program import linear, pointwise
from tests.oracles import duck
from tests.oracles.database import Database
from tests.stages import random_groups
from tests.stages.harness import bag_of, net_of, parts

Row = tuple[Any, ...]
BINARY = ("union_all", "union", "except_all", "except", "intersect_all", "intersect")


def feed(relation: str, columns: tuple[Column, ...], where: bool = False) -> Feed:
    outputs = tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns)
    return Feed(relation, outputs, call("not", call("isnull", outputs[0].expr)) if where else None)


def nest(random: Random, leaves: int, depth: int) -> Function:
    if depth == 0 or random.random() < 0.2:
        return random.randrange(leaves)
    if random.random() < 0.2:
        return ("distinct", nest(random, leaves, depth - 1))
    return (random.choice(BINARY), nest(random, leaves, depth - 1), nest(random, leaves, depth - 1))


def sql_of(function: Function, leaves: tuple[Feed, ...]) -> str:
    if isinstance(function, int):
        leaf = leaves[function]
        where = "" if leaf.where is None else f" WHERE {leaf.where}"
        return f"SELECT * FROM {leaf.source}{where}"
    operator, *operands = function
    texts = [f"({sql_of(o, leaves)})" for o in operands if not isinstance(o, str)]
    if operator == "distinct":
        return f"SELECT DISTINCT * FROM {texts[0]}"
    return f" {str(operator).replace('_', ' ').upper()} ".join(texts)


@pytest.mark.parametrize("seed", range(24))
def test_random_nests_are_those_of_the_twin_and_of_duckdb(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)[:3]
    relations = ("r", "s")
    sources = [random.choice(relations) for _ in range(3)]
    leaves = tuple(feed(source, columns, random.random() < 0.3) for source in sources)
    stage = PointwiseStage(leaves, nest(random, 3, 3))
    if isinstance(stage.function, int):
        stage = PointwiseStage(leaves, ("distinct", stage.function))
    (part,) = parts(1)
    running = Pointwise(stage, [columns] * 3, part)
    empty = int(part.arena[A.H_LIVE])
    database = Database({name: Table(name, columns) for name in relations})
    total: Counter[Row] = Counter()
    batches = [random_groups.batches(random, columns, 10, special=True) for _ in relations]
    for pair in zip(*batches, strict=True):
        nets = dict(zip(relations, (net_of(batch, columns, part) for batch in pair), strict=True))
        given = [nets[source] for source in sources]
        running.apply(given)
        running.undo(given)
        total.update(bag_of([running.apply(given)], running.columns, part))
        total = Counter({row: weight for row, weight in total.items() if weight})
        database.apply({name: list(batch.items()) for name, batch in zip(relations, pair, strict=True)})
        wanted = pointwise(stage, [database.rows[source] for source in sources], [columns] * 3)
        assert total == wanted
        assert bag_of(running.scan(), running.columns, part) == wanted
        assert duck.results(sql_of(stage.function, leaves), database) == wanted
        running.check_invariants()
        for row, copies in list(wanted.items())[:3]:
            codes = net_of({row: 1}, columns, part).rows[0]
            assert running.multiplicity(codes) == copies
    assert int(part.arena[A.H_LIVE]) == empty, "what is deleted leaves no word"


@pytest.mark.parametrize("seed", range(10))
def test_random_sums_are_those_of_the_twin(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)[:3]
    relations = ("r", "s")
    padded = Feed("s", (*feed("s", columns).columns[:2], Output("c2", columns[2].type, cast(NULL, columns[2].type))))
    weighted = Feed("r", feed("r", columns).columns, None, random.choice([1, 2, -1]))
    stage = LinearStage((feed("r", columns, True), padded, weighted))
    sources = [str(term.source) for term in stage.terms]
    (part,) = parts(1)
    running = Linear(stage, [columns] * 3, part.dictionary)
    database = Database({name: Table(name, columns) for name in relations})
    total: Counter[Row] = Counter()
    batches = [random_groups.batches(random, columns, 8, special=True) for _ in relations]
    for pair in zip(*batches, strict=True):
        nets = dict(zip(relations, (net_of(batch, columns, part) for batch in pair), strict=True))
        total.update(bag_of([running.apply([nets[source] for source in sources])], running.columns, part))
        total = Counter({row: weight for row, weight in total.items() if weight})
        database.apply({name: list(batch.items()) for name, batch in zip(relations, pair, strict=True)})
        wanted = linear(stage, [database.rows[source] for source in sources], [columns] * 3)
        assert total == Counter({row: copies for row, copies in wanted.items() if copies})
        whole = [[net_of(database.rows[source], columns, part)] for source in sources]
        assert bag_of((net.net() for net in running.scan(whole)), running.columns, part) == total


def test_a_batch_over_the_budget_leaves_the_stage_as_it_was() -> None:
    columns = (Column("k", "int64"),)
    (part,) = parts(1, 1 << 20, budget=6_000)
    running = Pointwise(PointwiseStage((feed("r", columns),), ("distinct", 0)), [columns], part)
    running.apply([net_of([((i,), 2) for i in range(30)], columns, part)])
    before = bag_of(running.scan(), columns, part)
    with pytest.raises(Exception, match="memory_budget"):
        running.apply([net_of([((i,), 1) for i in range(5000)], columns, part)])
    assert bag_of(running.scan(), columns, part) == before
    assert running.multiplicity(net_of([((3,), 1)], columns, part).rows[0]) == 1
