"""Datalog programs of several predicates, and recursions of several relations, beside brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

import crown
from crown.stages.fixpoint import STAMP, Fixpoint
from crown.stages.joins.core import Join
from tests.marks import every, seeds, slow
from tests.models.fixpoint import ReferenceFixpoint
from tests.models.rules import Row, evaluated, parsed
from tests.programs.random_predicates import TABLES, Predicates, sql


class Stream:
    """Tables that change: sets of rows, with NULLs here and there."""

    def __init__(self, seed: int, widths: dict[str, int], values: tuple[Any, ...] = (0, 1, 2, 3, 4, 1, 2, None)) -> None:
        self.random, self.widths, self.values = Random(seed), widths, values
        self.rows: dict[str, set[Row]] = {name: set() for name in widths}

    def batch(self, most: int) -> dict[str, list[tuple[Row, int]]]:
        """Changes some rows. Returns the changes, with their weights."""
        changes: dict[str, Counter[Row]] = {name: Counter() for name in self.widths}
        for _ in range(self.random.randint(1, most)):
            name = self.random.choice(list(self.widths))
            there = sorted(self.rows[name], key=repr)
            if there and self.random.random() < 0.45:
                row = self.random.choice(there)
            else:
                row = tuple(self.random.choice(self.values) for _ in range(self.widths[name]))
            changes[name][row] += -1 if row in self.rows[name] else 1
            self.rows[name] ^= {row}
        return {name: [(row, weight) for row, weight in rows.items() if weight] for name, rows in changes.items()}


def columns(changes: dict[str, list[tuple[Row, int]]], schema: dict[str, dict[str, str]]) -> dict[str, Any]:
    return {
        name: [{**dict(zip(schema[name], row, strict=True)), "_weight": weight} for row, weight in rows]
        for name, rows in changes.items()
    }


@pytest.mark.parametrize("seed", seeds(60, 2000))
def test_random_programs_have_the_rows_of_brute_force(seed: int) -> None:
    program = Predicates(seed)
    view = crown.view(program.text, TABLES)
    stream, total = Stream(seed, {name: len(known) for name, known in TABLES.items()}), Counter[Row]()
    for number in range(12):
        changes = stream.batch(3 if number % 4 else 12)
        for row in view.apply(columns(changes, TABLES)).to_pylist():
            weight = row.pop("_weight")
            total[tuple(row.values())] += weight
        wanted = program.goal.rows(evaluated(program.components, stream.rows))
        assert {row for row, weight in total.items() if weight} == wanted, program.text
        assert set(total.values()) <= {0, 1}
        assert {tuple(row.values()) for row in view} == wanted
        view._engine.check_invariants()


@pytest.mark.parametrize("seed", seeds(30, 1000))
def test_queries_that_read_each_other_have_the_rows_of_brute_force(seed: int) -> None:
    program = Predicates(seed)
    view = crown.view(sql(program, declared=seed % 2 == 0), TABLES)
    stream = Stream(seed, {name: len(known) for name, known in TABLES.items()})
    for number in range(8):
        view.apply(columns(stream.batch(3 if number % 4 else 12), TABLES))
        wanted = program.goal.rows(evaluated(program.components, stream.rows))
        assert {tuple(row.values()) for row in view} == wanted, program.text


EVEN = "even(x, z) :- odd(x, y), e(y, z). odd(x, y) :- e(x, y). odd(x, z) :- even(x, y), e(y, z). ?- even(x, y)."


def even(edges: Iterable[tuple[int, int]], there: Mapping[Row, int]) -> Iterator[tuple[Row, int]]:
    """Paths of an even (1) and an odd (2) number of edges."""
    yield from (((2, *edge), 0) for edge in edges)
    for (number, x, y), stamp in there.items():
        yield from (((3 - number, x, w), stamp) for z, w in edges if y == z)


@pytest.mark.parametrize("batches", [40, slow(400)])
def test_a_recursion_of_two_predicates_has_the_rows_and_stamps_of_its_twin(batches: int) -> None:
    view, twin = crown.view(EVEN, TABLES), ReferenceFixpoint(even)
    stream = Stream(7, {"e": 2}, tuple(range(8)))
    (stage,) = (stage for stage in view._engine.stages if isinstance(stage, Fixpoint))
    for number in range(batches):
        view.apply(columns(stream.batch(1 if number % 3 else 6), TABLES))
        twin.update(stream.rows["e"])
        blocks = [(rows.tolist(), counts[:, STAMP].tolist()) for rows, counts in stage._rows.scan()]
        assert {tuple(row): stamp for rows, stamps in blocks for row, stamp in zip(rows, stamps)} == twin.stamps
        assert {tuple(row.values()) for row in view} == {row[1:] for row in twin.stamps if row[0] == 1}


VARIABLES = {"source": "string", "target": "string"}
POINTS_TO = {
    "new": {"variable": "string", "object": "string"},
    "assign": VARIABLES,
    "load": {"target": "string", "base": "string", "field": "string"},
    "store": {"base": "string", "field": "string", "source": "string"},
    "call": {"site": "string", "base": "string", "name": "string"},
    "method": {"object": "string", "name": "string", "code": "string"},
    "argument": {"site": "string", "source": "string"},
    "parameter": {"code": "string", "variable": "string"},
}
REAL = {
    "points to": (
        """
        points(v, o) :- new(v, o).
        points(v, o) :- assign(w, v), points(w, o).
        points(v, o) :- load(v, b, f), points(b, p), heap(p, f, o).
        points(v, o) :- calls(s, m), argument(s, w), parameter(m, v), points(w, o).
        heap(p, f, o) :- store(b, f, w), points(b, p), points(w, o).
        calls(s, m) :- call(s, b, n), points(b, o), method(o, n, m).
        """,
        "points(v, o)",
        POINTS_TO,
    ),
    "call graph": (
        """
        points(v, o) :- new(v, o).
        points(v, o) :- assign(w, v), points(w, o).
        points(v, o) :- calls(s, m), argument(s, w), parameter(m, v), points(w, o).
        calls(s, m) :- call(s, b, n), points(b, o), method(o, n, m).
        """,
        "calls(s, m)",
        POINTS_TO,
    ),
    "same generation": (
        "same(x, y) :- up(x, p), up(y, p). same(x, y) :- up(x, p), same(p, q), up(y, q).",
        "same(x, y)",
        {"up": {"child": "string", "parent": "string"}},
    ),
    "even and odd paths": (EVEN[: EVEN.index("?-")], "even(x, y)", TABLES),
    "access": (
        """
        member(u, g) :- joined(u, g).
        member(u, g) :- member(u, h), within(h, g).
        member(u, g) :- can(u, g, a), invites(a), asked(u, g).
        can(u, d, a) :- member(u, g), allowed(g, d, a).
        can(u, d, a) :- can(u, f, a), inside(d, f).
        """,
        "can(u, d, a)",
        {
            "joined": {"user": "string", "team": "string"},
            "within": {"team": "string", "larger": "string"},
            "invites": {"action": "string"},
            "asked": {"user": "string", "team": "string"},
            "allowed": {"team": "string", "document": "string", "action": "string"},
            "inside": {"document": "string", "folder": "string"},
        },
    ),
    "a game": (
        "mine(x) :- goal(x). mine(x) :- move(x, y), theirs(y). theirs(x) :- move(x, y), mine(y).",
        "theirs(x)",
        {"goal": {"x": "string"}, "move": {"x": "string", "y": "string"}},
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_programs_that_are_in_use_have_the_rows_of_brute_force(name: str) -> None:
    rules, goal, schema = REAL[name]
    view = crown.view(f"{rules} ?- {goal}.", schema)
    values = tuple(range(5)) if schema is TABLES else tuple("abcd")
    stream = Stream(len(name), {table: len(known) for table, known in schema.items()}, values)
    seen = 0
    for number in range(30):
        view.apply(columns(stream.batch(2 if number % 4 else 40), schema))
        wanted = evaluated([parsed(rules)], stream.rows)[goal.partition("(")[0]]
        assert {tuple(row.values()) for row in view} == wanted
        seen += len(wanted)
        view._engine.check_invariants()
    assert seen, "no rows were compared"
