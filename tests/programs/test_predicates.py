"""Datalog programs of several predicates, and recursions of several relations, beside brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.stages.fixpoint import STAMP, Fixpoint
from crown.stages.joins.core import Join
from plans import PlanError, program
from tests.marks import every, seeds, slow
from tests.models.fixpoint import ReferenceFixpoint
from tests.models.rules import Row, evaluated, parsed
from tests.programs.random_predicates import TABLES, Predicates, sql


class Stream:
    """Tables that change: sets of rows, with NULLs here and there."""

    def __init__(
        self, seed: int, widths: dict[str, int], values: tuple[Any, ...] = (0, 1, 2, 3, 4, 1, 2, None)
    ) -> None:
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


@pytest.mark.parametrize("seed", seeds(30, 2000))
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


@pytest.mark.parametrize("seed", seeds(15, 1000))
def test_queries_that_read_each_other_have_the_rows_of_brute_force(seed: int) -> None:
    program = Predicates(seed)
    view = crown.view(sql(program, declared=seed % 2 == 0), TABLES)
    stream = Stream(seed, {name: len(known) for name, known in TABLES.items()})
    for number in range(8):
        view.apply(columns(stream.batch(3 if number % 4 else 12), TABLES))
        wanted = program.goal.rows(evaluated(program.components, stream.rows))
        assert {tuple(row.values()) for row in view} == wanted, program.text


@every(
    [
        (  # names of the first branch, which is a step; wider whole numbers by way of a query inside of a step
            "spark",
            "WITH RECURSIVE a AS (SELECT x + 1 AS s FROM b), b AS (SELECT s AS x FROM (WITH c AS (SELECT s FROM a) "
            "SELECT s FROM c) WHERE s < 4 UNION SELECT CAST(1 AS INT) FROM e UNION SELECT x FROM e WHERE x > 3) "
            "SELECT DISTINCT s FROM a",
            {(2,), (3,), (4,), (8,)},
        ),
        (  # a plain query keeps its duplicates
            "materialize",
            "WITH MUTUALLY RECURSIVE a (x bigint) AS (SELECT x FROM e WHERE x = 1 UNION SELECT x FROM b), b (x bigint) "
            "AS (SELECT e.y FROM a, e WHERE a.x = e.x) SELECT x, COUNT(*) AS n FROM b GROUP BY x",
            {(2, 1), (3, 2)},
        ),
        (  # UNION ALL counts derivations
            "postgres",
            "WITH RECURSIVE a AS (SELECT x, y FROM e UNION ALL SELECT x, y FROM b), b AS (SELECT a.x, e.y FROM a JOIN "
            "e ON a.y = e.x) SELECT x, y, COUNT(*) AS n FROM a GROUP BY x, y",
            {(1, 2, 1), (1, 3, 2), (2, 3, 1), (7, 8, 1)},
        ),
        (  # each in a form of its own
            "duckdb",
            "WITH RECURSIVE a (x, d) USING KEY (x, min(d)) AS (SELECT x, 0 FROM e WHERE x = 1 UNION SELECT x, d FROM "
            "b), b AS (SELECT x, MIN(d) AS d FROM (SELECT e.y AS x, d + 1 AS d FROM a, e WHERE a.x = e.x UNION SELECT "
            "7, 9 FROM e) GROUP BY x) SELECT x, d FROM a",
            {(1, 0), (2, 1), (3, 1), (7, 9), (8, 10)},
        ),
        (  # CTEs in any order, without a circle
            "spark",
            "WITH RECURSIVE a AS (SELECT x FROM b), b AS (SELECT y AS x FROM e WHERE x = 1) SELECT x FROM a",
            {(2,), (3,)},
        ),
    ]
)
def test_forms_of_queries_that_read_each_other(dialect: str, query: str, wanted: set[Row]) -> None:
    view = crown.view(query, TABLES, dialect=dialect)
    view.apply({"e": [(1, 2), (1, 3), (2, 3), (7, 8)]})
    assert {tuple(row.values()) for row in view} == wanted


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
        pairs = (pair for rows, stamps in blocks for pair in zip(map(tuple, rows), stamps, strict=True))
        assert dict(pairs) == twin.stamps
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


def test_a_round_calls_only_steps_that_read_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of n edges: each round has paths of one length, even or odd, which one of the two joins reads."""
    view, calls = crown.view(EVEN, TABLES), Counter[int]()
    apply = Join.apply

    def counted(self: Join, *args: Any, **options: Any) -> Any:
        calls[id(self)] += 1
        return apply(self, *args, **options)

    monkeypatch.setattr(Join, "apply", counted)
    view._engine.pipeline = None  # a native call does not call them
    view.update({"e": [(i, i + 1) for i in range(40)]})
    assert sum(calls.values()) == 43, "all three joins read the edges, and one join the paths of each length"


NEAREST = """
bus(x, min(0)) :- n(x). bus(y, min(t + 2)) :- bus(x, t), e(x, y). bus(x, min(t + 5)) :- train(x, t), n(x).
train(y, min(t + 1)) :- train(x, t), f(x, y). train(x, min(t + 3)) :- bus(x, t), late(x).
late(y) :- late(x), f(x, y). late(x) :- bus(x, t), t < 9. ?- train(x, t).
"""


def test_two_predicates_with_min_and_one_without_have_the_least_values() -> None:
    view, stream, seen = crown.view(NEAREST, TABLES), Stream(3, {"e": 2, "f": 2, "n": 1}, tuple(range(7))), 0
    for number in range(40):
        view.apply(columns(stream.batch(2 if number % 4 else 15), TABLES))
        bus, train, late = dict.fromkeys((x for (x,) in stream.rows["n"]), 0), dict[int, int](), set[int]()
        before: Any = None
        while before != (before := (dict(bus), dict(train), set(late))):
            ways = [(bus, y, bus[x] + 2) for x, y in stream.rows["e"] if x in bus]
            ways += [(bus, x, train[x] + 5) for (x,) in stream.rows["n"] if x in train]
            ways += [(train, y, train[x] + 1) for x, y in stream.rows["f"] if x in train]
            ways += [(train, x, bus[x] + 3) for x in bus if x in late]
            for best, x, time in ways:
                best[x] = min(time, best.get(x, time))
            late |= {x for x, time in bus.items() if time < 9} | {y for x, y in stream.rows["f"] if x in late}
        assert {(row["x"], row["t"]) for row in view} == set(train.items())
        seen += len(train)
        view._engine.check_invariants()
    assert seen


def test_a_saved_view_of_a_program_goes_on(tmp_path: Path) -> None:
    view, stream = crown.view(EVEN, TABLES), Stream(5, {"e": 2}, tuple(range(6)))
    for number in range(6):
        view.apply(columns(stream.batch(8), TABLES))
        if number % 2:
            view.save(tmp_path / "view")
            view = crown.load(tmp_path / "view")
        wanted = evaluated([parsed(EVEN[: EVEN.index("?-")])], stream.rows)["even"]
        assert {tuple(row.values()) for row in view} == wanted


def test_a_durable_view_of_a_program_goes_on(tmp_path: Path) -> None:
    stream = Stream(6, {"e": 2}, tuple(range(6)))
    for _ in range(4):
        with crown.open(EVEN, tmp_path / "view", TABLES) as view:
            view.apply(columns(stream.batch(8), TABLES))
            wanted = evaluated([parsed(EVEN[: EVEN.index("?-")])], stream.rows)["even"]
            assert {tuple(row.values()) for row in view} == wanted


def kinds(query: str) -> list[str]:
    return [type(stage).__name__ for stage in program(query, TABLES).stages]


def test_a_predicate_that_is_read_twice_is_maintained_once() -> None:
    two = "two(x, z) :- e(x, y), e(y, z)."
    assert kinds(f"{two} q(x) :- two(x, y), two(y, x).").count("JoinStage") == 2
    assert (
        kinds(f"{two} q(x, count()) :- two(x, y). r(x, n, m) :- q(x, n), q(y, m), two(x, y).").count("GroupStage") == 1
    )
    reached = "reached(x) :- n(x). reached(y) :- reached(x), e(x, y)."
    assert kinds(f"{reached} q(x, y) :- reached(x), f(x, y), reached(y).").count("FixpointStage") == 1
    assert kinds(f"{EVEN[: EVEN.index('?-')]} q(x) :- even(x, y), odd(x, y).").count("FixpointStage") == 1


def test_what_the_goal_does_not_need_is_checked_and_not_maintained() -> None:
    assert kinds("a(x) :- e(x, _), not n(x). b(x) :- f(x, _). ?- b(x).") == kinds("b(x) :- f(x, _). ?- b(x).")
    with pytest.raises(PlanError, match="unknown relation g"):
        program("a(x) :- g(x). b(x) :- f(x, _). ?- b(x).", TABLES)


@every(
    [
        ("?- e(x, y).", {"x": 1, "y": 2}),
        ("?- e(1, b), b > 1.", {"b": 2}),
        ("?- f(y, x), e(x, _).", {"y": 7, "x": 1}),
        ("p(a, b) :- e(a, b). ?- p(b, a).", {"b": 1, "a": 2}),
        ("p(a, count() as many) :- e(a, _). ?- p(x, many).", {"x": 1, "many": 1}),
        ("p(a, b) :- e(a, b). p(a, c) :- q(a, b), e(b, c). q(u, v) :- p(u, v).", {"a": 1, "b": 2}),
    ]
)
def test_the_columns_of_a_result_are_the_variables_of_the_goal(query: str, row: dict[str, int]) -> None:
    if "?-" not in query:
        query += " ?- p(a, b)."
    view = crown.view(query, TABLES)
    view.apply({"e": [(1, 2)], "f": [(7, 1)]} if "f(" in query else {"e": [(1, 2)]})
    assert list(view) == [row]


def test_a_goal_without_variables_has_the_empty_row_or_none() -> None:
    view = crown.view("p(x, z) :- e(x, z). p(x, z) :- p(x, y), e(y, z). ?- p(1, 3).", TABLES)
    view.apply({"e": [(1, 2), (2, 3)]})
    assert list(view) == [{}]
    view.apply({"e": [{"x": 2, "y": 3, "_weight": -1}]})
    assert list(view) == []


def test_rows_of_unlike_predicates_share_columns_of_the_same_type() -> None:
    """Texts, doubles and whole numbers of three arities; integers of two sizes."""
    schema = {"a": {"k": "int32", "s": "string"}, "b": {"s": "string", "v": "float64", "n": "int64"}}
    rules = (
        "p(k, s) :- a(k, s). p(n, s) :- q(s, _, n), a(_, s). "
        "q(s, v, n) :- b(s, v, n), r(s). r(s) :- p(_, s). r('x') :- p(1, _)."
    )
    view = crown.view(f"{rules} ?- p(k, s).", schema)
    (recursion,) = (stage for stage in view._engine.stages if isinstance(stage, Fixpoint))
    assert [column.type for column in recursion.columns] == ["int32", "int64", "string", "float64"]
    view.apply({"a": [(1, "u"), (2, "x")], "b": [("x", 0.5, 7), ("u", None, 1 << 40), ("w", 1.5, 3)]})
    assert sorted(tuple(row.values()) for row in view) == [(1, "u"), (2, "x"), (7, "x"), (1 << 40, "u")]
    view.apply({"a": [{"k": 1, "s": "u", "_weight": -1}]})
    assert sorted(tuple(row.values()) for row in view) == [(2, "x"), (7, "x")]


def test_explain_names_the_predicates_of_a_recursion() -> None:
    shown = crown.explain(EVEN, TABLES)
    assert "itself as even, odd, each row once" in shown
    assert "sum of even, odd (c0 AS x, c1 AS y, stamp) where relation = 2" in shown


@every(
    [
        (
            "lost(x) :- e(x, y), not won(y). lost(x) :- n(x). won(x) :- e(x, y), lost(y).",
            "lost negates won, which reads lost", "negate won in a predicate that won does not read",
        ),
        (
            "a(x) :- n(x). a(x) :- c(x). b(x) :- e(x, y), not a(y). c(x) :- b(x). ?- a(x).",
            "b negates a, which reads c, which reads b", "negate a in",
        ),
        (
            "a(x, count()) :- b(x), e(x, _). b(x) :- a(x, _). b(x) :- n(x).",
            "a aggregates b, which reads a", "aggregate b in a predicate that b does not read; or give all rules of a",
        ),
        ("a(x) :- b(x). b(x) :- a(x). ?- a(x).", "every rule of a and b reads one of them", "begin with rows that"),
        ("a(x) :- n(x). a(x, y) :- b(x), e(x, y). b(x) :- a(x). ?- a(x).", "this head has 2 arguments", "give all"),
        ("a(x) :- n(x). ?- a(x). ?- a(y).", "a program has one goal", "leave the others out"),
        ("a(x) :- n(x). e(x, y) :- a(x), a(y).", "e is the name of a table", "give the head another name"),
        ("a(x) :- n(x). b(x) :- a(x). c(x) :- a(x).", "the result can be b or c", "end the program with a goal"),
        ("a(x) :- n(x), b(x). b(x) :- a(x). b(x) :- n(x).", "the result can be a or b", "end the program with a goal"),
        (
            "d(x, min(0)) :- n(x). d(y, min(t + 1)) :- c(x, t), e(x, y). c(y, max(t + 1)) :- d(x, t), e(x, y).",
            "d has MIN of int32 and c has MAX of int32, and they read each other", "give them the same function",
        ),
        (
            "d(x, min(0)) :- n(x). d(y, min(t + 1)) :- c(x), d(x, t), e(x, y). c(x) :- d(x, t), t > 3. ?- d(x, t).",
            "d has MIN, and a condition may hold for a row and not for one with a better", "with MIN or MAX",
        ),
        ("a(x) :- n(x). b(x) :- a(x, _).", "a has 1 columns, but this atom has more arguments", "write a variable"),
    ]
)  # fmt: skip
def test_a_program_is_refused_with_what_to_write(rules: str, sentence: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        program(rules, TABLES)
    assert sentence in caught.value.message
    assert caught.value.hint.startswith(hint)
    assert caught.value.position is not None
