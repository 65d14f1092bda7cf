"""Datalog with aggregates, negation and several rules has the rows that its meaning in SQL has."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from plans import PlanError, parse, plan, program
from plans.queries.algebra import Query
from tests.marks import every, seeds
from tests.oracles import duck
from tests.oracles.database import Database
from tests.plans.expressions.evaluator import results
from tests.plans.lowering.test_programs import rounded
from tests.plans.random_rules import COLUMNS, TABLES, Rules


def database(seed: int) -> Database:
    """Returns small tables with NULLs and duplicates; some of them are empty."""
    rng = random.Random(seed)
    made = Database(TABLES)
    for name, columns in COLUMNS.items():
        rows = [tuple(rng.choice((0, 1, 2, 3, None)) for _ in columns) for _ in range(rng.choice((0, 2, 5, 9)))]
        made.apply({name: [(row, rng.choice((1, 1, 2))) for row in rows]})
    return made


DATABASES = [database(seed) for seed in range(8)]


def filled(**rows: list[tuple[int | None, ...]]) -> Database:
    made = Database(TABLES)
    made.apply({name: [(row, 1) for row in given] for name, given in rows.items()})
    return made


@pytest.mark.parametrize("seed", seeds(30, 400))
def test_random_rules_have_the_rows_of_their_meaning_in_sql(seed: int) -> None:
    rules = Rules(seed)
    made = program(rules.datalog, TABLES)
    for tables in random.Random(seed).sample(DATABASES, 4):
        assert rounded(results(made, tables)) == rounded(duck.results(rules.sql, tables)), rules.datalog


def test_aggregates_range_over_distinct_valuations() -> None:
    tables = filled(g=[(1, 5), (1, 5), (1, 6), (2, None)], h=[(5, 7), (5, 8)])
    assert results(program("Q(a, count(), sum(b)) :- g(a, b).", TABLES), tables) == Counter([(1, 2, 11), (2, 1, None)])
    assert results(program("Q(a, count()) :- g(a, b), h(b, c).", TABLES), tables) == Counter([(1, 2)])
    assert results(program("Q(a, count()) :- g(a, b), h(b, _).", TABLES), tables) == Counter([(1, 1)])
    made = program("Q(a, count(c), count(distinct b), avg(b)) :- g(a, b), h(b, c).", TABLES)
    assert results(made, tables) == Counter([(1, 2, 1, 5.0)])


def test_a_head_of_aggregates_alone_always_has_one_row() -> None:
    made = program("Q(count(), max(a)) :- p(a).", TABLES)
    assert results(made, filled()) == Counter([(0, None)])
    assert results(made, filled(p=[(3,), (3,)])) == Counter([(1, 3)])
    assert results(program("Q(count(*)) :- p(3).", TABLES), filled(p=[(3,), (3,)])) == Counter([(1,)])


def test_aggregates_that_see_a_value_once_need_no_other_variable() -> None:
    made = program("Q(a, min(c), count(distinct c)) :- g(a, b), h(b, c).", TABLES)
    assert [column.name for column in made.stages[0].plan.output] == ["a", "c"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("Q(a, count(), sum(b), count(distinct b), 3) :- g(a, b).", ["a", "count", "sum_b", "count_b", "c4"]),
        ("Q(a as src, max(b + 1) as top, max(b + 2)) :- g(a, b).", ["src", "top", "max"]),
        ("Q(count() as b, b) :- g(a, b).", ["b", "b_"]),
        ("Q(a as b, b as a) :- g(a, b).", ["b", "a"]),
    ],
)
def test_outputs_are_named_by_as_or_by_what_they_are(rule: str, names: list[str]) -> None:
    assert [column.name for column in parse(rule, TABLES).columns] == names


def test_a_negated_atom_of_wildcards_asks_for_an_empty_table() -> None:
    made = program("Q(a) :- not h(_, _), p(a).", TABLES)
    assert results(made, filled(p=[(1,)])) == Counter([(1,)])
    assert results(made, filled(p=[(1,)], h=[(None, None)])) == Counter()


def test_several_rules_take_the_wider_type() -> None:
    made = parse("Q(a) :- i(a). Q(a) :- j(a).", {"i": {"a": "int32"}, "j": {"a": "int64"}})
    assert [column.type for column in made.columns] == ["int64"]


def test_one_rule_of_plain_atoms_is_still_a_plan() -> None:
    rule = "Q(a, c) :- g(a, b), h(b, c), p(a)."
    assert isinstance(parse(rule, TABLES), Query)
    assert program(rule, TABLES).plan == plan(rule, TABLES)
    with pytest.raises(PlanError, match="more than one join"):
        plan("Q(a) :- g(a, b), not p(b).", TABLES)


@every(
    [
        ("Q(c) :- g(a, b), not h(b, c).", "variable c of the head is only in a negated atom", 3),
        ("Q(a) :- g(a, b), not h(b, c), c > 1.", "variable c is only in a negated atom", 31),
        ("Q(a) :- g(a, b), not h(b, c), not p(c).", "variable c is in two negated atoms and in no other", 37),
        ("Q(a) :- not g(a, b).", "the body has only negated atoms", 1),
        ("Q(a) :- p(a), not Q(a).", "every rule of Q reads Q", 1),
        ("Q(a) :- p(a). Q(b) :- g(a, b), not Q(a).", "Q negates itself", 36),
        ("Q(a) :- p(a). Q(count()) :- Q(a).", "Q aggregates itself", 15),
        ("Q(a) :- p(a). Q(b) :- t(b), Q(_).", "argument 1 has the type string here and int64 in other rules of Q", 15),
        ("Q(a) :- p(a). Q(a) :- Q(a, b), p(a).", "Q has 1 columns, but this atom has more arguments", 23),
        ("Q(a) :- g(a=1, b).", "arguments are given by position, without names", 11),
        ("Q(a) :- p(a), not h(a).", "h has 2 columns, but this atom has 1 arguments", 19),
        ("Q(a, sum()) :- p(a).", "sum takes one value", 6),
        ("Q(a, max_by(a)) :- p(a).", "max_by takes two values, and the result is the first one", 6),
        ("Q(a, max_by()) :- p(a).", "max_by takes two values, and the result is the first one", 6),
        ("Q(a, max_by(null, a)) :- p(a).", "an aggregate of NULL has no type", 6),
        ("Q(a, max_by(a, null)) :- p(a).", "an aggregate of NULL has no type", 6),
        (
            "Q(a, min(0), min_by(a, 1)) :- p(a). Q(b, min(d + 1), min_by(a, d + 1)) :- Q(a, d, _), g(a, b).",
            "in a recursion, min_by is by the value of min\\(...\\)",
            14,
        ),
        ("Q(a, min(0), max_by(a, 0)) :- p(a). Q(b, min(d), max_by(a, d)) :- Q(a, d, _), g(a, b).", "Q aggregates", 37),
        ("Q(a, count(a, a)) :- p(a).", "expected '\\)', found ','", 13),
        ("Q(a, sum(z)) :- p(a).", "variable z is in no atom of the body", 10),
        ("Q(a, median(a)) :- p(a).", "median is not an aggregate", 6),
        ("Q(max(null)) :- p(a).", "an aggregate of NULL has no type", 3),
        ("Q(a, null) :- p(a).", "NULL in the head has no type", 6),
        ("Q(sum(a)) :- t(a).", "SUM needs a number, not string", 3),
        ("Q(a, count() as A) :- p(a).", "two output columns are called A", 17),
        ("Q(count() as _weight) :- p(a).", "must not be called _weight", 14),
        ("Q(a) :- p(a). W(a) :- p(a).", "the result can be Q or W", 15),
        ("Q(a) :- p(a). Q(a, b) :- g(a, b).", "this head has 2 arguments, the first one has 1", 15),
        ("Q(a) :- p(a). Q(a) :- t(a).", "argument 1 has the type string here and int64 in other rules of Q", 15),
        ("Q(a) :- p(a) Q(a) :- t(a).", "expected ',' or '.', found 'Q'", 14),
        ("Q(a) :- p(a), a > 3 4.", "expected ',' or '.', found '4'", 21),
        ("Q(a) :- p(a), a > 3), a > 4.", "expected ',' or '.', found '\\)'", 20),
    ]
)
def test_what_is_no_rule_is_refused_at_its_place(rule: str, message: str, column: int) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        program(rule, {**TABLES, "t": {"a": "string"}})
    assert caught.value.position is not None
    assert caught.value.position.column == column


PAGE = (Path(__file__).parents[3] / "docs" / "datalog.md").read_text()
NAMED: dict[str, object] = {
    "follows": {"who": "int64", "whom": "int64"},
    "paid": {"who": "int64", "amount": "int64"},
    "blocked": {"who": "int64"},
    "edges": {"src": "int64", "dst": "int64"},
    "vertices": {"id": "int64"},
}


def test_every_query_of_the_page_is_planned() -> None:
    found = re.findall(r"^\| `(.*?)` \|", PAGE, re.MULTILINE)
    assert len(found) == 14
    assert all(program(query, NAMED).stages for query in found)


def test_every_rule_of_many_is_an_input_of_one_union() -> None:
    made = program(" ".join(f"Q(a) :- g(a, {i})." for i in range(200)), TABLES)
    tables = filled(g=[(7, 150), (7, 151), (8, 199), (9, 200)])
    assert len(made.stages) == 1
    assert results(made, tables) == Counter([(7,), (8,)])


WORDS = (
    "not",
    "!",
    "(",
    ")",
    ",",
    ".",
    ":-",
    "count",
    "sum",
    "distinct",
    "as",
    "_",
    "x",
    "y",
    "1",
    "null",
    "g",
    "h",
    "Q",
    "<",
)


@every(range(20))
def test_a_damaged_rule_is_planned_or_refused_at_its_place(seed: int) -> None:
    rng = random.Random(seed)
    for number in range(40):
        words = re.findall(r":-|<=|\w+|[^\w\s]", Rules(40 * seed + number).datalog)
        for _ in range(rng.randint(1, 2)):
            place = rng.randrange(1, len(words))
            words[place : place + rng.randint(0, 1)] = rng.sample(WORDS, rng.randint(0, 1))
        text = " ".join((*words, ":-" if ":-" not in words else ""))
        try:
            program(text, TABLES)
        except PlanError as error:
            if error.position is None:
                pytest.fail(f"an error without a place: {error} in {text}")
