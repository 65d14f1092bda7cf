"""Left joins inside the join tree: kernels, readable twin and DuckDB agree after every batch."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import crown
from crown.engine.load.loader import Loader
from plans import program
from plans.lowering import lower
from plans.plan import Plan
from plans.program import Program
from plans.programs.stages import JoinStage
from plans.search.cells.cuts import by_anything
from plans.search.cells.shares import hashable
from tests.engine.stopping.stops import small_blocks
from tests.marks import seeds
from tests.models import PayloadReference
from tests.oracles import duck
from tests.oracles.database import Batch, Database, canonical, to_arrow

TABLES = {
    "L": {"a": "int64", "b": "int64"},
    "M": {"b": "int64", "d": "int64"},
    "R": {"k": "int64", "c": "int64", "e": "int64"},
    "S": {"k": "int64", "f": "int64"},
    "U": {"columns": {"u": "int64", "w": "int64"}, "key": ["u"]},
}
WIDTHS = {"R": 3}
CYCLE = "L.a, R.c FROM L JOIN M ON L.b = M.b JOIN S ON S.k = M.d AND S.f = L.a LEFT JOIN R ON M.d = R.k"
QUERIES = {
    "below a cycle": f"SELECT {CYCLE}",
    "one": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k",
    "its own condition": "SELECT L.a, R.c FROM L LEFT JOIN R ON L.b = R.k AND R.e > 1 AND R.k < 3",
    "key that is shown": "SELECT L.a, R.k, R.c FROM L LEFT JOIN R ON L.b = R.k",
    "null-safe": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b IS NOT DISTINCT FROM R.k",
    "two keys": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k AND L.a = R.e",
    "one column twice": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k AND L.a = R.k",
    "equal on the right": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k AND L.b = R.e",
    "computed key": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b + 1 = R.k",
    "computed output": "SELECT L.a, COALESCE(R.c, -1) AS c, R.e FROM L LEFT JOIN R ON L.b = R.k",
    "self": "SELECT L.a, L.b, P.b AS c FROM L LEFT JOIN L P ON L.b = P.a AND P.b > 1",
    "two leaves": "SELECT L.a, L.b, R.c, S.f FROM L LEFT JOIN R ON L.b = R.k LEFT JOIN S ON L.a = S.k",
    "two of one": "SELECT L.a, L.b, R.c, Q.c AS q FROM L LEFT JOIN R ON L.b = R.k LEFT JOIN R Q ON L.a = Q.k",
    "below a join": "SELECT L.a, L.b, M.d, R.c FROM L JOIN M ON L.b = M.b LEFT JOIN R ON M.d = R.k",
    "below the key of a join": "SELECT L.a, L.b, M.d, R.c FROM L JOIN M ON L.b = M.b LEFT JOIN R ON L.b = R.k",
    "projected": "SELECT L.a, R.c FROM L JOIN M ON L.b = M.b LEFT JOIN R ON M.d = R.k",
    "distinct": "SELECT DISTINCT L.a, R.c FROM L LEFT JOIN R ON L.b = R.k",
    "distinct values": "SELECT DISTINCT L.a, L.b, R.c > 1 AS v FROM L LEFT JOIN R ON L.b = R.k",
    "distinct values of two leaves": "SELECT DISTINCT L.a, L.b, COALESCE(R.c, S.f) AS v "
    "FROM L LEFT JOIN R ON L.b = R.k LEFT JOIN S ON L.a = S.k",
    "filtered left": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k WHERE L.b > 1 AND L.a < 4",
    "constant key": "SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k WHERE L.b = 2",
    "constant key alone": "SELECT R.c FROM L LEFT JOIN R ON L.b = R.k WHERE L.b = 2",
    "constant key of a join": "SELECT M.b, R.c FROM L JOIN M ON L.b = M.b LEFT JOIN R ON L.b = R.k WHERE L.b = 1",
    "declared key": "SELECT DISTINCT L.a, U.u, U.w FROM L LEFT JOIN U ON L.b = U.u",
    "declared key beside": "SELECT DISTINCT L.a, U.u FROM L LEFT JOIN U ON L.b = U.w",
    "declared key that is found": "SELECT DISTINCT L.a, L.b, U.u FROM L LEFT JOIN U ON L.b = U.w",
    "below a declared key": "SELECT U.u, R.c FROM U LEFT JOIN R ON U.w = R.k",
    "existence": "SELECT L.a, R.c FROM L LEFT JOIN R ON L.b = R.k WHERE L.a IN (SELECT k FROM S)",
    "product": "SELECT L.a, M.d, R.c FROM L CROSS JOIN M LEFT JOIN R ON M.d = R.k",
    "below what is not": "SELECT L.a, R.c, S.f FROM L LEFT JOIN R ON L.b = R.k LEFT JOIN S ON R.c = S.k",
    "derived": "SELECT v.a, v.c, M.d FROM (SELECT L.a, L.b, R.c FROM L LEFT JOIN R ON L.b = R.k) v JOIN M ON v.b = M.b",
}
UNPADDED = {
    "of a cycle whose rows count once": f"SELECT DISTINCT {CYCLE}",
    "asked for by WHERE": "SELECT L.a, R.c FROM L LEFT JOIN R ON L.b = R.k WHERE R.c IS NULL",
    "found by a range": "SELECT L.a, R.c FROM L LEFT JOIN R ON L.b < R.k",
    "not shown": "SELECT L.a, L.b FROM L LEFT JOIN R ON L.b = R.k",
    "under a sum": "SELECT L.a, SUM(R.c) AS s FROM L LEFT JOIN R ON L.b = R.k GROUP BY L.a",
}


def padded(made: Program) -> int:
    """How many nodes of a program's trees are padded."""
    return sum(node.padded for stage in made.stages if isinstance(stage, JoinStage) for node in stage.plan.nodes)


def batches(random: Random, database: Database, count: int, domain: int, most: int) -> list[Batch]:
    """Batches of inserts and deletes of rows that are there; the last one deletes all."""
    made: list[Batch] = []
    ghost = Database(TABLES)
    for number in range(count):
        batch: dict[str, list] = {}
        for name in random.sample(sorted(TABLES), random.randint(1, len(TABLES))):
            width = WIDTHS.get(name, 2)
            rows = list(ghost.rows[name].elements())
            gone = random.sample(rows, min(len(rows), random.randint(0, most)))
            fresh = [
                tuple(random.choice([None, *range(domain)]) for _ in range(width))
                for _ in range(random.randint(0, most))
            ]
            if name == "U":  # one row per key
                left = {row[0] for row in rows} - {row[0] for row in gone}
                fresh = list({row[0]: row for row in fresh if row[0] is not None and row[0] not in left}.values())
            most_copies = 1 if name == "U" else 2
            batch[name] = [(row, -1) for row in gone] + [(row, random.randint(1, most_copies)) for row in fresh]
        batch = ghost.without_absent_deletes(batch if number < count - 1 else ghost.everything(-1))
        ghost.apply(batch)
        made.append(batch)
    return made


def twin_of(made: Program) -> PayloadReference | None:
    """The readable twin of a program that is one bag of joined base tables, without a cycle."""
    (stage, *others) = made.stages
    if others or not isinstance(stage, JoinStage) or stage.mode != "bag" or any(n.bag for n in stage.plan.nodes):
        return None
    return PayloadReference(stage.plan)


def told(plan: Plan, values: dict) -> Counter:
    """The twin's values of tuples of free attributes, as weighted output rows of plain columns."""
    found: Counter = Counter()
    for row, (weight, *_) in values.items():
        named = dict(zip(plan.free, row, strict=True))
        found[tuple(named[output.expr.value] for output in plan.output)] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def held(view: crown.View) -> Counter:
    """The result of a view, with the multiplicities of its rows."""
    found: Counter = Counter()
    for row in view.to_table().to_pylist():
        weight = row.pop("_weight", 1)
        found[canonical([tuple(row.values())])[0]] += weight
    return found


def follow(query: str, seed: int, most: int = 6, **options: object) -> None:
    """Compares deltas and results of a view with DuckDB's, and where it has a twin with that, after every batch."""
    random = Random(seed)
    database = Database(TABLES)
    made = program(query, TABLES)
    view = crown.view(made, **options)
    twin = twin_of(made)
    bag: Counter = Counter()
    for batch in batches(random, database, 14, random.choice([3, 6]), most):
        database.apply(batch)
        read = {name: rows for name, rows in batch.items() if name.lower() in {t.name.lower() for t in made.tables}}
        tables = {name: to_arrow(database.schema, name, rows) for name, rows in read.items()}
        delta: Counter = Counter()
        for row in view.apply(tables).to_pylist():
            delta[canonical([tuple(row.values())[:-1]])[0]] += row["_weight"]
        assert all(delta.values()), "a row and its retraction in one delta"
        for row, weight in delta.items():
            bag[row] += weight
        bag = Counter({row: weight for row, weight in bag.items() if weight})
        expected = duck.results(query, database)
        assert bag == expected
        assert held(view) == expected
        assert view.count() == sum(expected.values())
        for row in list(expected)[:3]:
            assert view.multiplicity(dict(zip(view.schema.names, row, strict=False))) == expected[row]
        view.check_invariants()
        if twin is not None and all(output.expr.op == "col" for output in twin.plan.output):
            changes = {
                table.name: [
                    {**dict(zip(database.columns(name), row, strict=True)), "_weight": weight} for row, weight in rows
                ]
                for name, rows in read.items()
                for table in twin.plan.tables
                if table.name.lower() == name.lower()
            }
            assert told(twin.plan, twin.apply_valued(changes)) == delta
            twin.check_invariants()
    assert not bag


@pytest.mark.parametrize("name", QUERIES)
def test_a_left_join_is_padded_in_the_tree(name: str) -> None:
    assert padded(program(QUERIES[name], TABLES)) > 0


@pytest.mark.parametrize("name", UNPADDED)
def test_what_others_read_is_not_padded(name: str) -> None:
    assert padded(program(UNPADDED[name], TABLES)) == 0


@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("name", ["one", "self", "two leaves", "below a join"])
def test_a_full_buffer_is_emptied_in_the_midst_of_a_padding(name: str, seed: int) -> None:
    with small_blocks():
        follow(QUERIES[name], seed, most=25)


@pytest.mark.parametrize("name", ["one", "self", "two leaves", "below a join", "distinct"])
def test_cells_on_threads_pad_what_one_would(name: str) -> None:
    follow(QUERIES[name], 5, threads=3)


@pytest.mark.parametrize("name", ["one", "self", "two leaves", "below a join", "key that is shown"])
def test_large_loads_are_padded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loader, "min_tuples", 2)
    random, database = Random(name), Database(TABLES)
    view = crown.view(QUERIES[name], TABLES)
    for batch in batches(random, database, 8, 6, 30):
        database.apply(batch)
        view.update({n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in QUERIES[name].split()})
        expected = duck.results(QUERIES[name], database)
        assert held(view) == expected
        view.check_invariants()


@pytest.mark.parametrize("inner", [QUERIES["one"], UNPADDED["of a cycle whose rows count once"]])
def test_a_derived_left_join_is_lowered_once_however_deep(inner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its left join finds a place or not: twice on each level would be 2^10 times at the bottom."""
    calls = Counter()
    resolved = lower._resolved
    monkeypatch.setattr(lower, "_resolved", lambda *given: (calls.update([depth]), resolved(*given))[1])
    for depth in (5, 10):
        query = inner
        for _ in range(depth):
            query = f"SELECT v.a, R.c FROM (SELECT DISTINCT a, c FROM ({query}) w) v LEFT JOIN R ON v.c = R.k"
        program(query, TABLES)
    assert calls[10] <= 2 * calls[5]


def test_a_column_of_the_padded_relation_alone_cuts_nothing() -> None:
    made = program("SELECT L.a, R.c FROM L LEFT JOIN R ON L.b = R.k", TABLES)
    (stage,) = made.stages
    assert isinstance(stage, JoinStage)
    assert hashable(stage.plan) == ("a",)
    cut = by_anything(made)
    assert cut is not None
    assert all("c" not in dict(role.hashed) for role in cut.roles.values())


def test_nothing_is_kept_for_rows_without_a_partner() -> None:
    """As many words as the inner join has over the same rows, and one row of NULLs."""
    words = {}
    for join in ("JOIN", "LEFT JOIN"):
        view = crown.view(f"SELECT L.a, L.b, R.c FROM L {join} R ON L.b = R.k", TABLES)
        view.update({"L": [(i, i) for i in range(4000)]})
        words[join] = view.stats()["live_bytes"]
    assert words["LEFT JOIN"] <= words["JOIN"]


@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize("name", [*QUERIES, *UNPADDED])
def test_a_left_join_is_that_of_the_definition(name: str, seed: int) -> None:
    follow({**QUERIES, **UNPADDED}[name], seed)
