"""Aggregates whose sums are formed inside of a join: engine = definition of the program = DuckDB, after every batch."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

import crown
import plans
from crown.errors import ChangeError
from crown.kernels.memory import arena as A
from crown.programs.program import ProgramEngine
from crown.stages.groups.group import Groups
from plans.program import Program
from plans.programs.stages import GroupStage, JoinStage
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.expressions.evaluator import results
from tests.plans.lowering.random_sums import TABLES, VALUES, Writer
from tests.plans.lowering.test_programs import rounded
from tests.programs.driver import Driver
from tests.programs.test_programs import apply, result_of

Batch = dict[str, list[tuple[Row, int]]]


def batch_of(random: Random, database: Database) -> Batch:
    """Inserts that keep the key, several copies of some, and deletes of what is there."""
    batch: Batch = {}
    for name in random.sample(sorted(TABLES), random.randint(1, 3)):
        rows = database.rows[name]
        gone = random.sample(sorted(rows, key=repr), min(len(rows), random.randint(0, 4)))
        changes: list[tuple[Row, int]] = [(row, -random.randint(1, rows[row])) for row in gone]
        left = Counter(rows)
        for row, weight in changes:
            left[row] += weight
        taken = {row[0] for row, n in left.items() if n > 0}
        for _ in range(random.randint(0, 6)):
            row = tuple(random.choice(VALUES[column.name]) for column in database.schema[name].columns)
            if name == "e" and row[0] in taken:
                continue
            taken.add(row[0])
            changes.append((row, 1 if name == "e" else random.choice((1, 1, 3))))
        batch[name] = changes
    return batch


def in_payload(program: Program) -> bool:
    """Whether some sum is formed inside of a join."""
    return any(isinstance(stage, JoinStage) and stage.mode == "payload" for stage in program.stages)


def compare(query: str, random: Random) -> Program:
    program = plans.program(query, TABLES)
    assert Program.from_json(program.to_json()) == program
    driver = Driver(query, program, TABLES, exact=False)
    for turn in range(7):
        batch = batch_of(random, driver.database) if turn < 6 else driver.database.everything(-1)
        after = driver.step(batch, again=turn % 3 == 2)
        assert rounded(after) == rounded(results(program, driver.database)), query
    for stage, part in zip(program.stages, driver.engine.stages, strict=True):
        if isinstance(stage, GroupStage) and not stage.whole:
            assert part.stats()["groups"] == 0, query
    return program


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_a_random_aggregate_over_a_join_is_maintained(seed: int) -> None:
    compare(Writer(seed).query(), Random(seed))


@pytest.mark.parametrize("otherwise", ["", " ELSE NULL", " ELSE 0.5"])
def test_a_branch_may_be_null_where_another_table_decides_about_a_double(otherwise: str) -> None:
    query = f"SELECT SUM(CASE WHEN q1.i >= 1 THEN p1.y{otherwise} END) AS s FROM p p1, q q1 WHERE p1.b = q1.b"
    compare(query, Random(3))


def test_most_random_aggregates_are_summed_in_the_join() -> None:
    programs = [plans.program(Writer(seed).query(), TABLES) for seed in range(60)]
    assert sum(map(in_payload, programs)) > 30


SPECIAL = (math.inf, -math.inf, math.nan, 0.0, 2.0, -1.0, None)
WILD = {
    "u": {"k": "int64", "x": "float64", "n": "int64", "p": "bool"},
    "v": {"k": "int64", "y": "float64", "m": "int64"},
}
WILD_SUMS = (
    "SUM(u.x * v.y)",
    "SUM(u.x + v.y)",
    "SUM(u.x - v.y)",
    "SUM(-(u.x * v.y))",
    "AVG(u.x * v.y)",
    "SUM(CASE WHEN u.p THEN u.x ELSE v.y END)",
    "SUM(CASE WHEN u.p THEN u.x ELSE v.y END * v.y)",
    "SUM(u.x) FILTER (WHERE v.m > 1)",
    "SUM(u.x * u.x * v.y)",
    "SUM(u.x * v.y * 0.5E0)",
)


def shown(rows: Counter[Row]) -> Counter[Row]:
    """NaN is no value that equals itself."""
    return Counter(str(row) for row in rounded(rows).elements())  # type: ignore[misc]


@pytest.mark.parametrize("call", WILD_SUMS)
def test_what_is_not_finite_follows_the_signs_of_products(call: str) -> None:
    query = f"SELECT u.n AS n, {call} AS s FROM u, v WHERE u.k = v.k GROUP BY u.n"
    program, random = plans.program(query, WILD), Random(3)
    assert in_payload(program)
    engine, database = ProgramEngine.create(program), Database(WILD)
    for _ in range(16):
        few = [SPECIAL[i] for i in random.sample(range(len(SPECIAL)), 2)]
        u: list[tuple[Row, int]] = [
            ((1, random.choice(few), random.randint(1, 2), random.choice((True, False, None))), 1) for _ in range(2)
        ]
        v: list[tuple[Row, int]] = [((1, random.choice(few), random.randint(1, 2)), 1)]
        for batch in ({"u": u, "v": v}, {name: [(row, -n) for row, n in rows] for name, rows in (("u", u), ("v", v))}):
            apply(engine, {name: to_arrow(database.schema, name, rows) for name, rows in batch.items()})
            database.apply(batch)
            assert shown(result_of(engine)) == shown(duck.results(query, database)), (u, v)
    engine.check_invariants()


LARGE = {"u": {"k": "int64", "x": "int64", "z": "float64"}, "v": {"k": "int64", "y": "int64"}}


def test_a_sum_that_leaves_its_type_names_group_and_column_and_changes_nothing() -> None:
    view = crown.view(
        "SELECT u.k, SUM(u.x * v.y) AS total, COUNT(*) AS n FROM u, v WHERE u.k = v.k GROUP BY u.k", LARGE
    )
    view.update({"u": {"k": [1, 2], "x": [2**62, 5], "z": [0.0, 0.0]}, "v": {"k": [1, 2], "y": [1, 3]}})
    before = view.to_table().to_pylist()
    with pytest.raises(ChangeError, match=r"group k=1, column 'sum_x': the sum is no int64"):
        view.update({"v": {"k": [1], "y": [1]}})
    assert view.to_table().to_pylist() == before
    view.check_invariants()
    delta = view.apply({"v": {"k": [1, 1], "y": [1, -1]}})  # on the way it is too large
    assert sorted((row["total"], row["n"], row["_weight"]) for row in delta.to_pylist()) == [
        (2**62, 1, -1),
        (2**62, 3, 1),
    ]
    view.check_invariants()


def test_products_are_those_of_the_true_numbers() -> None:
    view = crown.view("SELECT SUM(CAST(u.x AS DECIMAL(38,0)) * v.y) AS s FROM u, v WHERE u.k = v.k", LARGE)
    view.update({"u": {"k": [1, 1], "x": [2**62, -(2**62)], "z": [0.0, 0.0]}, "v": {"k": [1], "y": [2**61]}})
    assert view.to_table().to_pylist() == [{"s": Decimal(0)}]
    view.update({"u": [{"k": 1, "x": -(2**62), "z": 0.0, "_weight": -1}]})
    assert view.to_table().to_pylist() == [{"s": Decimal(2**123)}]


def test_a_constant_factor_is_exact_whatever_its_size() -> None:
    for constant, x in ((1e-40, 3e36), (1e300, 2e-300), (5e-324, 1e300)):
        amount = f"CASE WHEN v.y > 0 THEN u.z ELSE {constant} END"
        view = crown.view(f"SELECT SUM({amount}) AS s FROM u, v WHERE u.k = v.k", LARGE)
        view.update({"u": {"k": [1], "x": [1], "z": [x]}, "v": {"k": [1, 1], "y": [3, -3]}})
        assert view.to_table().to_pylist() == [{"s": float(Fraction(constant) + Fraction(x))}]
        view.check_invariants()


def test_a_count_beyond_63_bits_is_refused() -> None:
    view = crown.view("SELECT COUNT(u.x) AS n, SUM(v.y) AS s FROM u, v WHERE u.k = v.k", LARGE)
    view.update({"u": [{"k": 1, "x": x, "z": 0.0, "_weight": 2**30} for x in range(4)]})
    view.update({"v": [{"k": 1, "y": 0, "_weight": 2**29}]})
    assert view.to_table().to_pylist() == [{"n": 2**61, "s": 0}]
    for copies in (2**29 + 2**28, 2**30):
        with pytest.raises(ChangeError, match=r"more than 2\^62 rows|would leave 63 bits"):
            view.update({"v": [{"k": 1, "y": y, "_weight": copies} for y in range(1, 5)]})
        assert view.to_table().to_pylist() == [{"n": 2**61, "s": 0}]
        view.check_invariants()


def test_sums_in_a_join_are_kept_in_a_file_saved_and_loaded(tmp_path: Path) -> None:
    query = "SELECT u.k, SUM(u.x * v.y) AS s, AVG(u.z) AS m FROM u, v WHERE u.k = v.k GROUP BY u.k"
    view = crown.view(query, LARGE, path=tmp_path / "state", memory_budget="64 MiB")
    view.update({"u": {"k": [1, 1, 2], "x": [3, None, 5], "z": [0.5, 1.5, None]}, "v": {"k": [1, 2], "y": [7, 9]}})
    view.save(tmp_path / "saved")
    expected = [{"k": 1, "s": 21, "m": 1.0}, {"k": 2, "s": 45, "m": None}]
    for state_path in (None, tmp_path / "other"):
        loaded = crown.load(tmp_path / "saved", state_path=state_path)
        assert sorted(loaded.to_table().to_pylist(), key=str) == expected
        loaded.apply({"v": [{"k": 2, "y": 9, "_weight": -1}, {"k": 1, "y": 1, "_weight": 1}]})
        assert loaded.to_table().to_pylist() == [{"k": 1, "s": 24, "m": 1.0}]
        loaded.check_invariants()


def test_deletes_to_empty_leave_no_word_of_a_sum() -> None:
    query = "SELECT SUM(u.x * v.y) AS s, AVG(u.z) AS m, COVAR_POP(u.x, v.y) AS c FROM u, v WHERE u.k = v.k"
    engine, random = ProgramEngine.create(plans.program(query, LARGE)), Random(1)
    database = Database(LARGE)
    empty = [int(part[A.H_LIVE]) for part in engine.memory.parts[2:]]
    rows: Batch = {
        "u": [((i % 5, random.randint(-(2**50), 2**50), random.uniform(-1e9, 1e9)), 1) for i in range(200)],
        "v": [((i % 5, random.randint(-9, 9)), 1) for i in range(50)],
    }
    apply(engine, {name: to_arrow(database.schema, name, part) for name, part in rows.items()})
    assert [int(part[A.H_LIVE]) for part in engine.memory.parts[2:]] != empty
    for name in random.sample(sorted(rows), 2):
        random.shuffle(rows[name])
        gone = [(row, -n) for row, n in rows[name]]
        for start in range(0, len(gone), 30):
            apply(engine, {name: to_arrow(database.schema, name, gone[start : start + 30])})
    assert [int(part[A.H_LIVE]) for part in engine.memory.parts[2:]] == empty
    group = engine.stages[-1]
    assert isinstance(group, Groups)
    assert not group._stored(group.parts[0][A.H_ROOT : A.H_ROOT + 1]).rows.any()


def test_rows_that_come_and_go_in_one_batch_cancel_also_where_deletes_are_trusted() -> None:
    schema = {"g": {"a": "int64", "b": "int64"}}
    query = "SELECT x.a, SUM(y.b) AS s, COUNT(*) AS n FROM g x JOIN g y ON x.b = y.a GROUP BY x.a"
    views = [crown.view(query, schema, on_missing=how) for how in ("trust", "ignore")]
    batches = (
        [(1, 2, 1), (2, 3, 1), (5, 1, 1), (5, 1, -1)],
        [(2, 3, -1), (2, 4, 1), (2, 4, -1), (2, 5, 1)],
        [(1, 2, -1), (2, 5, -1)],
    )
    for batch in batches:
        rows = [{"a": a, "b": b, "_weight": weight} for a, b, weight in batch]
        trusting, asking = (sorted(map(str, view.apply({"g": rows}).to_pylist())) for view in views)
        assert trusting == asking
    assert [view.count() for view in views] == [0, 0]
