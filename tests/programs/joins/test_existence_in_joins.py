"""IN, EXISTS and SEMI JOIN in counted queries: atoms of the join tree whose rows count once; engine = definition =
DuckDB after every batch."""

from __future__ import annotations

from random import Random

import pytest

import crown
import plans
from plans.program import Program
from plans.programs.stages import JoinStage
from tests.marks import seeds
from tests.plans.lowering.random_sums import TABLES, Writer
from tests.programs.joins.test_sums_in_joins import compare

FILTERS = {
    "p": ("{}.b IN (SELECT c FROM q)", "EXISTS (SELECT * FROM q n WHERE n.b = {0}.b AND n.i > 0)",
          "{}.a IN (SELECT b FROM p WHERE x > 0)", "EXISTS (SELECT 1 FROM q n WHERE n.b = {0}.b AND n.c = {0}.a)"),
    "q": ("{}.c IN (SELECT c FROM e WHERE f)", "EXISTS (SELECT * FROM p n WHERE n.b = {0}.b)",
          "EXISTS (SELECT * FROM q n WHERE n.b = {0}.b AND n.c = {0}.c AND n.i IS NULL)"),
    "e": ("{}.c IN (SELECT b FROM q)", "EXISTS (SELECT * FROM p n WHERE n.a = {0}.c)"),
}  # fmt: skip


class Filtered(Writer):
    """Writes one random query whose rows one or two subqueries filter; some of them keep their duplicates."""

    def condition(self) -> str:
        return super().condition() if self.rng.random() < 0.5 else "TRUE"

    def query(self) -> str:
        text = super().query()
        extra = []
        for table, alias in self.rng.sample(self.sources, self.rng.randint(1, 2)):
            extra.append(self.rng.choice(FILTERS[table]).format(alias))
        return text.replace(f"WHERE {self.on}", f"WHERE {self.on} AND {' AND '.join(extra)}")


def filters(program: Program) -> list[str]:
    """The nodes that are asked for existence only."""
    joins = [stage.plan for stage in program.stages if isinstance(stage, JoinStage)]
    return [node.name for plan in joins for node in plan.nodes if node.name.endswith("[exists]")]


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_random_sums_over_filtered_joins_are_maintained(seed: int) -> None:
    compare(Filtered(seed).query(), Random(seed))


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_filtered_joins_keep_their_duplicates(seed: int) -> None:
    random = Random(seed)
    on = "p1.b = q1.b AND " + " AND ".join(random.sample([f.format("p1") for f in FILTERS["p"]], 2))
    compare(f"SELECT p1.a AS a, q1.i AS i FROM p p1, q q1 WHERE {on}", random)


def test_most_filters_are_atoms_of_the_tree() -> None:
    programs = [plans.program(Filtered(seed).query(), TABLES) for seed in range(40)]
    assert sum(bool(filters(program)) for program in programs) > 30


SCHEMA = {
    "orders": {"columns": {"o": "int64", "c": "int64", "p": "string"}, "key": ["o"]},
    "lines": {"o": "int64", "q": "int64", "d": "int64"},
    "customers": {"c": "int64", "n": "string"},
}


@pytest.mark.parametrize(
    ("condition", "inside"),
    [
        ("EXISTS (SELECT * FROM lines l WHERE l.o = r.o AND l.q < l.d)", True),
        ("r.o IN (SELECT o FROM lines)", True),
        ("r.c IN (SELECT c FROM customers WHERE n = 'x') AND r.o IN (SELECT o FROM lines)", True),
        ("EXISTS (SELECT * FROM lines l WHERE l.o = r.o AND l.q > r.c)", False),
        ("EXISTS (SELECT * FROM lines)", False),
        ("EXISTS (SELECT * FROM customers c, lines l WHERE c.c = r.c AND l.o = r.o AND l.q = c.c)", False),
    ],
)
def test_one_relation_found_by_equal_columns_needs_no_stage(condition: str, inside: bool) -> None:
    made = plans.program(f"SELECT p, COUNT(*) AS n FROM orders r WHERE {condition} GROUP BY p", SCHEMA)
    assert bool(filters(made)) == inside
    assert (len(made.stages) == 2) == inside


def test_explain_says_that_rows_count_once() -> None:
    query = "SELECT p, COUNT(*) AS n FROM orders WHERE o IN (SELECT o FROM lines) GROUP BY p"
    text = " ".join(crown.view(query, SCHEMA).explain().split())
    assert "lines: only checked for existence: the rows of a key count once" in text
    assert "lines[exists](o) bound V_s V_p(o) payload 1, quiet of lines" in text


def test_a_second_row_of_a_key_changes_nothing_and_the_last_one_takes_all_away() -> None:
    view = crown.view("SELECT p, COUNT(*) AS n FROM orders WHERE o IN (SELECT o FROM lines) GROUP BY p", SCHEMA)
    view.update({"orders": [(1, 1, "a"), (2, 1, "a")], "lines": [(1, 5, 6)]})
    assert view.to_table().to_pylist() == [{"p": "a", "n": 1}]
    for line in ({"o": 1, "q": 7, "d": 8}, {"o": 1, "q": 5, "d": 6}, {"o": 1, "q": 5, "d": 6, "_weight": -1}):
        assert view.apply({"lines": [line]}).num_rows == 0
    assert view.apply({"lines": [{"o": 1, "q": 7, "d": 8, "_weight": -1}]}).num_rows == 0
    assert view.apply({"lines": [{"o": 1, "q": 5, "d": 6, "_weight": -1}]}).to_pylist() == [
        {"p": "a", "n": 1, "_weight": -1}
    ]
    view.check_invariants()


def test_rates_name_a_filter_by_its_alias_or_its_relation() -> None:
    query = "SELECT p, COUNT(*) AS n FROM orders WHERE EXISTS (SELECT * FROM lines l WHERE l.o = orders.o) GROUP BY p"
    for name in ("l", "lines"):
        made = plans.program(query, SCHEMA, rates={name: 5})
        (join,) = [stage.plan for stage in made.stages if isinstance(stage, JoinStage)]
        assert join.rates == {"orders": 1.0, "l[exists]": 5.0}
