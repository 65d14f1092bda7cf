"""Programs of stages, evaluated by definition, have the rows that DuckDB computes: no engine is needed to see it."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal

import pytest

from plans import PlanError, Program, plan, program
from plans.lowering import lower
from plans.lowering.stages import Stages
from plans.programs.stages import GroupStage, JoinStage, LinearStage, OverStage
from plans.queries.algebra import Relation
from tests.marks import seeds, slow
from tests.oracles import duck
from tests.oracles.database import Database, Row
from tests.plans.expressions.evaluator import results
from tests.plans.lowering.program_queries import QUERIES, TABLES, planned
from tests.plans.lowering.random_queries import REFUSED, Writer

NUMBERS = (0, 1, 2, 3, None)
LETTERS = ("p", "q", None)


def database(seed: int) -> Database:
    """Returns small tables with NULLs and duplicates; some of them are empty."""
    rng = random.Random(seed)
    made = Database(TABLES)
    sizes = [rng.choice((0, 1, 3, 6, 9)) if seed % 3 else 0 if rng.random() < 0.5 else 5 for _ in range(4)]
    rows: dict[str, list[tuple[Row, int]]] = {
        "r": [((rng.choice(NUMBERS), rng.choice(NUMBERS)), rng.choice((1, 1, 2))) for _ in range(sizes[0])],
        "s": [((rng.choice(NUMBERS), rng.choice(LETTERS)), rng.choice((1, 1, 3))) for _ in range(sizes[1])],
        "t": [
            ((k, rng.choice(NUMBERS), rng.choice((Decimal("1.50"), Decimal("-0.25"), None))), 1)
            for k in rng.sample(range(5), min(5, sizes[2]))
        ],
        "u": [((rng.choice(NUMBERS), rng.choice((0.5, 1.0, 2.0, -1.25, None))), 1) for _ in range(sizes[3])],
    }
    made.apply(rows)
    return made


def rounded(rows: Counter[Row]) -> Counter[Row]:
    """Floats to nine digits, and as 0 what is as good as that, so that the order of additions does not show."""

    def of(value: float) -> float:
        return value if math.isnan(value) else 0.0 if abs(value) < 1e-12 else float(f"{value:.9g}")

    out: Counter[Row] = Counter()
    for row, copies in rows.items():
        out[tuple(of(v) if isinstance(v, float) else v for v in row)] += copies
    return out


DATABASES = [database(seed) for seed in range(12)]


@pytest.mark.parametrize(("first", "last"), [(1, 2), slow(0, 12)], ids=["a database", "more databases"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_program_has_the_rows_of_its_query(query: str, first: int, last: int) -> None:
    made = planned(query)
    assert Program.from_json(made.to_json()) == made
    for number, tables in enumerate(DATABASES[first:last], first):
        expected = duck.results(query, tables)
        assert rounded(results(made, tables)) == rounded(expected), f"database {number}"


@pytest.mark.parametrize("seed", seeds(8, 500))
def test_a_random_program_has_the_rows_of_its_query(seed: int) -> None:
    query = Writer(seed, TABLES).query()
    try:
        made = program(query, TABLES, dialect="duckdb")
    except PlanError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        pytest.skip(str(error).splitlines()[0])
    for tables in DATABASES[:3]:
        assert rounded(results(made, tables)) == rounded(duck.results(query, tables)), query


def test_regressions_over_equal_values_have_no_slope() -> None:
    made = program("SELECT REGR_SLOPE(a, b) AS s, REGR_INTERCEPT(a, b) AS i, COUNT_IF(b > 1) AS n FROM r", TABLES)
    tables = Database(TABLES)
    assert results(made, tables) == Counter({(None, None, 0): 1})
    tables.apply({"r": [((1, 2), 2), ((3, 2), 1)]})
    assert results(made, tables) == Counter({(None, None, 3): 1})
    tables.apply({"r": [((4, 3), 1)]})
    assert rounded(results(made, tables)) == Counter({(2.33333333, -3.0, 4): 1})


def test_keys_prove_that_a_join_under_a_group_is_a_set() -> None:
    made = program("SELECT k, MAX(v) AS s FROM t JOIN (SELECT DISTINCT a FROM r) d ON k = d.a GROUP BY k", TABLES)
    assert [stage.mode for stage in made.stages if isinstance(stage, JoinStage)] == ["set"]


def test_a_sum_over_a_join_is_formed_in_the_join() -> None:
    made = program("SELECT r.a, SUM(t.v * r.b) AS s FROM r JOIN t ON r.b = t.k GROUP BY r.a", TABLES)
    join = next(stage for stage in made.stages if isinstance(stage, JoinStage))
    group = made.stages[-1]
    assert isinstance(group, GroupStage)
    assert join.mode == "payload"
    assert join.plan.payload is not None
    assert [len(term) for term in join.plan.payload.terms] == [0, 2, 2]
    assert [out.name for out in join.plan.output] == [out.name for out in group.feed.columns] == ["a"]


def test_one_relation_needs_no_join_stage() -> None:
    made = program("SELECT a, COUNT(*) AS n FROM r WHERE b > 1 GROUP BY a", TABLES)
    assert [type(stage) for stage in made.stages] == [GroupStage]


def test_the_same_subquery_twice_is_one_stage() -> None:
    query = "WITH g AS (SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a) "
    made = program(query + "SELECT x.a, y.a AS c FROM g x JOIN g y ON x.n = y.n", TABLES)
    assert [type(stage) for stage in made.stages] == [JoinStage, GroupStage, JoinStage]


def test_derived_relations_carry_only_what_is_read() -> None:
    made = program("SELECT r.a FROM r LEFT JOIN t ON r.b = t.k AND t.v > 1", TABLES)
    completed = next(stage for stage in made.stages if isinstance(stage, LinearStage))
    assert [out.name for out in completed.terms[0].columns] == ["k", "v", "k0"]


def test_rows_below_window_functions_have_only_what_is_read() -> None:
    inner = "SELECT k, v, d, SUM(v) OVER (ORDER BY k) AS s, RANK() OVER (ORDER BY k) AS n FROM t"
    over = program(f"SELECT v, n FROM ({inner}) q", TABLES).stages[0]
    assert isinstance(over, OverStage)
    assert [column.name for column in over.feed.columns] == ["k", "v"]
    assert [one.function for one in over.functions] == ["rank"]
    union = "SELECT k, v, d FROM t UNION ALL SELECT k, v, d FROM t WHERE v > 1"
    over = program(f"SELECT n FROM (SELECT *, RANK() OVER (ORDER BY k) AS n FROM ({union}) u) q", TABLES).stages[1]
    assert isinstance(over, OverStage)
    assert [column.name for column in over.feed.columns] == ["k"]


@pytest.mark.parametrize(
    "query",
    ["SELECT COUNT(*) AS n FROM r", "SELECT a FROM r UNION SELECT b FROM s", "SELECT a FROM r LEFT JOIN u USING (a)"],
)
def test_a_plan_is_one_join(query: str) -> None:
    with pytest.raises(PlanError, match="more than one join"):
        plan(query, TABLES)


def test_group_by_without_aggregates_is_distinct() -> None:
    grouped, distinct = "SELECT a, b FROM r GROUP BY b, a", "SELECT DISTINCT a, b FROM r"
    assert plan(grouped, TABLES).fingerprint == plan(distinct, TABLES).fingerprint


def test_a_table_with_the_name_of_a_stage_is_refused() -> None:
    with pytest.raises(PlanError, match="must not be called #0"):
        program("SELECT COUNT(*) AS n FROM `#0`", {"#0": {"a": "int64"}})


def test_rates_reach_the_joins_of_a_program() -> None:
    query = "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a"
    join = program(query, TABLES, rates={"r": 5}).stages[0]
    assert isinstance(join, JoinStage)
    assert join.plan.rates["r"] == 5.0
    with pytest.raises(PlanError, match="a rate is given for 'q'"):
        program(query, TABLES, rates={"q": 5})


def test_a_relation_is_lowered_once_however_often_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Relation] = []
    made = lower._made

    def counted(relation: Relation, stages: Stages) -> int:
        lowered.append(relation)
        return made(relation, stages)

    monkeypatch.setattr(lower, "_made", counted)
    steps = ["q0 AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a)"]
    for i in range(9):
        steps.append(f"q{i + 1} AS (SELECT x.a, x.n + COALESCE(y.n, 0) AS n FROM q{i} x LEFT JOIN q{i} y ON x.a = y.n)")
    found = program(f"WITH {', '.join(steps)} SELECT a, n FROM q9", TABLES)
    assert len(lowered) == len(set(lowered)) < 3 * len(found.stages)
