"""Triangles that a query only counts: none of them is kept, and the number is DuckDB's after every batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

import crown
from crown.bags.counts import CountSpec, open_count
from crown.bags.protocol import BagError
from crown.errors import ChangeError, MemoryBudgetError
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from crown.stages.joins.cyclic import CyclicCount
from crown.store.memory import reserve
from plans import program
from plans.plan import TRIANGLE_COUNT
from plans.program import Program
from plans.programs.stages import JoinStage
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, to_arrow

TABLES = {
    "g": {"a": "int64", "b": "int64", "w": "int64"},
    "h": {"b": "int64", "c": "int64"},
    "n": {"a": "string", "b": "string"},
}
SELF = "FROM g x, g y, g z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
COUNTED = {
    "self": f"SELECT COUNT(*) AS n {SELF}",
    "half": "SELECT COUNT(*) AS n FROM h x JOIN h y ON x.c = y.b JOIN h z ON z.b = x.b AND z.c = y.c",
    "ordered": f"SELECT COUNT(*) AS n {SELF} AND x.a < y.a AND y.a < z.a",
    "one filtered": f"SELECT COUNT(*) AS n {SELF} AND x.w > 1",
    "all filtered": f"SELECT COUNT(*) AS n {SELF} AND x.w > 0 AND y.w > 0 AND z.w > 0",
    "three": "SELECT COUNT(*) AS n FROM g, h, h k WHERE g.b = h.b AND h.c = k.b AND k.c = g.a",
    "texts": "SELECT COUNT(*) AS n FROM n x, n y, n z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
    "having": f"SELECT 2 * COUNT(*) AS n {SELF} HAVING COUNT(*) > 3",
    "rows": f"SELECT 7 AS seven {SELF}",
    "either": f"SELECT COUNT(*) AS n {SELF} UNION ALL SELECT COUNT(*) AS n FROM h",
}
NOT_COUNTED = {
    "corners are shown": f"SELECT x.a, COUNT(*) AS n {SELF} GROUP BY x.a",
    "a sum": f"SELECT SUM(x.w) AS s {SELF}",
    "each once": f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT x.a, y.a AS b, z.a AS c {SELF}) t",
    "a condition on two": f"SELECT COUNT(*) AS n {SELF} AND x.w < y.w",
    "more hangs on it": f"SELECT COUNT(*) AS n {SELF.replace('WHERE', ', h WHERE h.b = x.a AND')}",
    "a square": "SELECT COUNT(*) AS n FROM h w, h x, h y, h z WHERE w.c=x.b AND x.c=y.b AND y.c=z.b AND z.c=w.b",
}


def counted(made: Program) -> int:
    return sum(stage.plan.count is not None for stage in made.stages if isinstance(stage, JoinStage))


def batches(random: Random, database: Database, count: int, domain: int, most: int):
    """Batches of inserts, some of them twice or with a NULL, and deletes of rows that are there; the last deletes
    all."""
    pools = {"n": [None, *"abcdef"[:domain]]}
    ghost = Database(TABLES)
    for number in range(count):
        batch = {}
        for name, columns in TABLES.items():
            rows = list(ghost.rows[name].elements())
            gone = random.sample(rows, min(len(rows), random.randint(0, most // 2)))
            pool = pools.get(name, [None, *range(domain)])
            fresh = [tuple(random.choice(pool) for _ in columns) for _ in range(random.randint(0, most))]
            batch[name] = [(row, -1) for row in gone] + [(row, random.randint(1, 3)) for row in fresh]
        batch = ghost.without_absent_deletes(batch if number < count - 1 else ghost.everything(-1))
        ghost.apply(batch)
        yield batch


def changes_of(view: crown.View, database: Database, batch):
    read = {table.name for table in view.plan.tables}
    return {name: to_arrow(database.schema, name, rows) for name, rows in batch.items() if name in read}


@pytest.mark.parametrize("seed", seeds(2, 100))
@pytest.mark.parametrize("name", COUNTED)
def test_the_number_is_duckdbs_after_every_batch(name: str, seed: int) -> None:
    query, random, database = COUNTED[name], Random(seed), Database(TABLES)
    assert counted(program(query, TABLES)) == 1
    view, bag = crown.view(query, TABLES), Counter()
    for batch in batches(random, database, 12, random.choice([3, 6]), random.choice([4, 40])):
        database.apply(batch)
        for *row, weight in (tuple(row.values()) for row in view.apply(changes_of(view, database, batch)).to_pylist()):
            bag[tuple(row)] += weight
        assert Counter({row: copies for row, copies in bag.items() if copies}) == duck.results(query, database)
        view.check_invariants()


@pytest.mark.parametrize("name", NOT_COUNTED)
def test_what_shows_more_than_the_number_keeps_the_triangles(name: str) -> None:
    assert not counted(program(NOT_COUNTED[name], TABLES))


def test_a_self_join_is_stored_once_and_no_triangle_is_kept() -> None:
    rows = [{"a": a, "b": b, "w": 1} for a in range(40) for b in range(40)]
    view, other = crown.view(COUNTED["self"], TABLES), crown.view(COUNTED["one filtered"], TABLES)
    for one in (view, other):
        one.update({"g": rows})
    (found, several) = (one.stats()["stages"][0]["tuples"] for one in (view, other))
    assert (found, several) == (1600, 3200)
    assert view.to_table().to_pylist() == [{"n": 40**3}]
    assert view.stats()["stages"][0]["live_bytes"] < 200 * 1600 < 8 * 40**3


def test_the_cost_of_a_change_grows_like_the_root_of_the_rows() -> None:
    """A hub whose list is as long as the relation: without tables of pairs each toggle would walk it."""
    steps = {}
    for n in (2_000, 32_000):
        view = crown.view(COUNTED["self"], TABLES)
        spokes = [{"a": 0, "b": v, "w": 0} for v in range(1, n)] + [{"a": v, "b": 1, "w": 0} for v in range(2, n)]
        view.update({"g": spokes})
        before = view.stats()["stages"][0]["operations"]
        for _ in range(20):
            for weight in (1, -1):
                view.update({"g": [{"a": 1, "b": 0, "w": 0, "_weight": weight}]})
        steps[n] = view.stats()["stages"][0]["operations"] - before
    assert steps[32_000] <= 6 * steps[2_000], "four times, were it the root exactly"


@pytest.mark.parametrize("name", ["self", "three", "texts"])
def test_a_batch_that_is_rolled_back_leaves_the_number_and_a_saved_state_goes_on(name: str, tmp_path: Path) -> None:
    query, random, database = COUNTED[name], Random(3), Database(TABLES)
    engine = ProgramEngine.create(program(query, TABLES), path=tmp_path / "live")
    (stage,) = (stage for stage in engine.stages if isinstance(stage, CyclicCount))
    for number, batch in enumerate(batches(random, database, 8, 4, 30)):
        read = {table.name for table in engine.plan.tables}
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items() if name in read}
        before = [net.weights.tolist() for net in stage.scan()]
        for _ in engine.run(engine.prepare(changes)):
            pass
        engine.undo(changes)
        assert [net.weights.tolist() for net in stage.scan()] == before
        engine.check_invariants()
        for _ in engine.run(engine.prepare(changes)):
            pass
        database.apply(batch)
        engine.compact()
        if number == 3:
            engine.save(tmp_path / "state")
            engine, _ = snapshot.load(tmp_path / "state")
            (stage,) = (stage for stage in engine.stages if isinstance(stage, CyclicCount))
        assert sum(net.weights.sum() for net in stage.scan()) == sum(
            row[0] * copies for row, copies in duck.results(query, database).items()
        )


def test_a_batch_for_which_there_is_no_room_changes_nothing() -> None:
    view = crown.view(COUNTED["three"], TABLES, memory_budget="2 MiB")
    random = Random(1)
    rows = [{"b": random.randrange(99), "c": random.randrange(99)} for _ in range(500)]
    view.update({"h": rows, "g": [{"a": row["b"], "b": row["c"], "w": 1} for row in rows]})
    before = view.to_table()
    more = [{"b": random.randrange(1 << 40), "c": random.randrange(1 << 40)} for _ in range(60_000)]
    with pytest.raises(MemoryBudgetError):
        view.update({"h": more})
    view.check_invariants()
    assert view.to_table() == before
    view.update({"h": [{**row, "_weight": -1} for row in rows]})
    assert view.to_table().to_pylist() == [{"n": 0}]


def test_a_text_that_only_the_query_has_stays_when_values_are_swept() -> None:
    view = crown.view(f"SELECT 7 AS seven, 'x' AS x {SELF}", TABLES)
    view.update({"g": [{"a": 1, "b": 1, "w": 1}]})
    view._engine.compact()
    view.update({"g": [{"a": 2, "b": 2, "w": 1}]})
    assert list(view) == [{"seven": 7, "x": "x"}] * 2


def test_a_number_that_leaves_64_bits_is_refused_and_nothing_changes() -> None:
    view = crown.view(COUNTED["self"], TABLES)
    loop = {"a": 1, "b": 1, "w": 1}
    view.update({"g": [{**loop, "_weight": 1_000_000}]})
    with pytest.raises(ChangeError, match="may leave 64 bits; nothing was applied"):
        view.update({"g": [{**loop, "_weight": 10_000_000}]})
    assert view.to_table().to_pylist() == [{"n": 10**18}]
    view.check_invariants()


def test_a_count_without_a_module_is_one_sentence() -> None:
    spec = CountSpec((("a", "b"), ("b", "c"), ("c", "a")), (), (("g",), ("g",), ("g",)))
    with pytest.raises(BagError, match="no module for 'square count' is installed"):
        open_count("square count", spec, reserve(1 << 16))
    wide = CountSpec((("a", "b", "d"), ("b", "d", "c"), ("c", "a")), (), (("g",), ("g",), ("g",)))
    with pytest.raises(BagError, match="more than one attribute at a corner"):
        open_count(TRIANGLE_COUNT, wide, reserve(1 << 16))


@pytest.mark.parametrize(
    "aggregates",
    [
        "COUNT(*) AS n, MAX(x.a) AS m",
        "COUNT(*) AS n, MIN(x.a) AS l, MAX(y.a) AS m",
        "COUNT(*) AS n, COUNT(DISTINCT x.a) AS d",
    ],
)
def test_other_aggregates_beside_the_count_of_triangles(aggregates: str) -> None:
    query = f"SELECT {aggregates} FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    view = crown.view(query, {"r": {"a": "int64", "b": "int64"}})
    random, live = Random(5), set()
    for _ in range(20):
        came = {(random.randrange(6), random.randrange(6)) for _ in range(5)} - live
        gone = set(random.sample(sorted(live), min(3, len(live))))
        live = (live | came) - gone
        view.apply({"r": [(a, b, 1) for a, b in came] + [(a, b, -1) for a, b in gone]})
        found = [(a, b, c) for a, b in live for b2, c in live if b2 == b and (c, a) in live]
        values = {"n": len(found), "l": min((t[0] for t in found), default=None), "d": len({t[0] for t in found})}
        most = max((t[1 if "y.a" in aggregates else 0] for t in found), default=None)
        expected = {**values, "m": most}
        (row,) = view.to_table().to_pylist()
        assert row == {name: expected[name] for name in row}
    view.check_invariants()


@pytest.mark.parametrize("seed", seeds(5, 40))
def test_loops_at_a_vertex_with_many_edges(seed: int) -> None:
    query = "SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    view = crown.view(query, {"r": {"a": "int64", "b": "int64"}})
    random, live = Random(seed), set()
    for _ in range(120):
        other = random.randrange(25)
        edge = random.choice([(0, other), (other, 0), (0, 0), (other % 4, other % 4)])
        weight = -1 if edge in live else 1
        live ^= {edge}
        view.apply({"r": [(*edge, weight)]})
        found = sum(1 for a, b in live for b2, c in live if b2 == b and (c, a) in live)
        assert view.to_table().to_pylist() == [{"n": found}]
    view.check_invariants()
