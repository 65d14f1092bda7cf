"""Views whose batches are going to be stopped: one of each kind of query and of memory, and a run of one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import crown
import plans
from crown.errors import UnusableStateError
from plans.program import Maintainable, Program
from tests.oracles import duck
from tests.oracles.database import Batch, Row
from tests.oracles.expectation import Answer, Expectation, by_duckdb, by_nested_loops, net, remembered, rows

PAIR = {"x": "int64", "y": "int64"}
TAGGED = {"x": "int64", "tag": "string"}
TENANTS = {"x": "int64", "t": "int32", "y": "int64", "u": "int32"}

Tables = dict[str, Any]
Make = Callable[..., Any]


@dataclass(frozen=True)
class Subject:
    """A query and how a view of it is made; ``enforced``: no row of a table occurs twice, and that is checked.

    ``on_missing``: as for ``crown.view``; a view that nothing is said of takes its own.
    """

    name: str
    query: str
    tables: Tables
    make: Make
    enforced: bool = False
    on_missing: str | None = None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def program(self) -> Program:
        """Returns the query's program, which is made once for all runs."""
        declared: dict[str, Any] = dict(self.tables)
        if self.enforced:
            declared = {name: {"columns": of, "distinct": True, "enforced": True} for name, of in declared.items()}
        return plans.program(self.query, declared)

    @cached_property
    def answer(self) -> Answer:
        """Returns the oracle: runs of one seed have the same tables, whatever stops them."""
        made = self.program.plan
        return remembered(by_duckdb(self.query) if made is None else by_nested_loops(made))


def memory(plan: Maintainable, folder: Path, **options: Any) -> crown.View:
    return crown.view(plan, **options)


def _threads(plan: Maintainable, folder: Path) -> crown.View:
    return crown.view(plan, threads=2)


def mapped(plan: Maintainable, folder: Path, **options: Any) -> crown.View:
    (folder / "state").unlink(missing_ok=True)  # of the view before
    return crown.view(plan, path=folder / "state", **options)


class Registered:
    """A view of a database, over another one, with the methods of ``crown.View`` that a run asks for."""

    def __init__(self, database: crown.Database, name: str) -> None:
        self.database = database
        self.named = database[name]
        self.schema = self.named.schema
        for method in ("count", "to_table", "contains"):
            setattr(self, method, getattr(self.named, method))
        for method in ("update", "save", "compact", "stats", "check_invariants"):
            setattr(self, method, getattr(database, method))

    @property
    def _engine(self) -> Any:
        return self.database._engine

    def apply(self, changes: Any) -> Any:
        return self.database.apply(changes)[self.named.name]

    apply_batches = apply


def _database(plan: Maintainable, folder: Path) -> Any:
    """A view over a view over a join, and one beside it that shares the join."""
    database = crown.database({"R": PAIR, "S": TAGGED})
    database.view("pairs", "SELECT s.tag, r.x, r.y FROM R r JOIN S s ON r.y = s.x")
    database.view("beside", "SELECT tag, MAX(x) AS x FROM pairs GROUP BY tag")
    grouped = "COUNT(*) AS n, SUM(y) AS t, MIN(x) AS lo, COUNT(DISTINCT x) AS d"
    database.view("groups", f"SELECT tag, {grouped} FROM pairs GROUP BY tag HAVING COUNT(*) > 1")
    return Registered(database, "groups")


THREE_HOP = "SELECT DISTINCT a.x, a.y, b.y AS z, c.y AS w FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x"
PROJECTED = "SELECT DISTINCT r.x, CONCAT(s.tag, '!') AS t FROM R r, S s WHERE r.y = s.x"
TRIANGLE = "SELECT DISTINCT a.x, a.y, b.y AS z FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
SQUARE = (
    "SELECT DISTINCT a.x, a.y, b.y AS z, c.y AS w FROM G a, G b, G c, G d "
    "WHERE a.y = b.x AND b.y = c.x AND c.y = d.x AND d.y = a.x"
)
WAY_OUT = TRIANGLE.replace("b.y AS z", "b.y AS z, d.y AS w").replace("G c", "G c, G d") + " AND c.y = d.x"
COPIES_OF_TRIANGLES = TRIANGLE.replace("DISTINCT ", "")
COPIES_OF_SQUARES = SQUARE.replace("DISTINCT ", "")
CORNER = "SELECT DISTINCT a.x FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
WIDE = (
    "SELECT DISTINCT a.x, a.t, b.x AS y, b.t AS u, c.x AS z, c.t AS v FROM G a, G b, G c "
    "WHERE a.y = b.x AND a.u = b.t AND b.y = c.x AND b.u = c.t AND c.y = a.x AND c.u = a.t"
)
TAGS = "SELECT DISTINCT r.x, s.tag, u.tag AS other FROM R r, S s, S u WHERE r.y = s.x AND r.x = u.x"

GROUPS = (
    "SELECT s.tag, COUNT(*) AS n, SUM(r.y) AS t, MIN(r.x) AS lo, COUNT(DISTINCT r.x) AS d "
    "FROM R r JOIN S s ON r.y = s.x GROUP BY s.tag HAVING COUNT(*) > 1"
)
ONE_CALL = "SELECT x, COUNT(*) AS n, SUM(y) AS t FROM G GROUP BY x"
JOINED_CALL = "SELECT a.x, COUNT(*) AS n, SUM(h.y) AS t FROM G a, H h WHERE a.y = h.x GROUP BY a.x"
COUNTED_CALL = "SELECT a.x FROM G a, H h WHERE a.y = h.x"
STOPPED_CALL = "SELECT x, MAX(y) AS m, SUM(y) AS t FROM G GROUP BY x HAVING COUNT(*) > 1"
RECURSION = (
    "WITH RECURSIVE p AS (SELECT x, y FROM G UNION SELECT p.x, G.y FROM p JOIN G ON p.y = G.x) SELECT x, y FROM p"
)
NEAREST = (
    "WITH RECURSIVE p (x, d, via) USING KEY (x, min(d), min_by(via, d)) AS (SELECT x, y, x FROM G UNION SELECT G.y, "
    "p.d + 1, p.x FROM p JOIN G ON p.x = G.x) SELECT x, d FROM p"
)
EVEN = (
    "WITH RECURSIVE even (x, y) AS (SELECT DISTINCT odd.x, G.y FROM odd JOIN G ON odd.y = G.x), "
    "odd (x, y) AS (SELECT x, y FROM G UNION SELECT even.x, G.y FROM even JOIN G ON even.y = G.x) SELECT x, y FROM even"
)
duck.MEANINGS[EVEN] = (
    "WITH RECURSIVE p (n, x, y) AS (SELECT 1, x, y FROM G UNION SELECT 1 - n, p.x, G.y FROM p JOIN G ON p.y = G.x) "
    "SELECT x, y FROM p WHERE n = 0"
)
OUTER = "SELECT r.x, r.y, s.tag FROM R r LEFT JOIN S s ON r.y = s.x"
MISSING = "SELECT r.x, r.y, s.tag FROM R r LEFT JOIN S s ON r.y = s.x WHERE s.tag IS NULL OR r.x > 1"
SETS = "SELECT x, y FROM G UNION SELECT y, x FROM G EXCEPT SELECT x, y FROM H"
ROWS = "SELECT a.x, c.y FROM G a, G b, G c WHERE a.y = b.x AND b.y = c.x"

FIRST = (
    "SELECT s.tag, r.x, r.y FROM R r JOIN S s ON r.y = s.x "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY r.x ORDER BY s.tag DESC NULLS LAST, r.y NULLS FIRST) <= 3"
)

WINDOWS = (
    "SELECT x, y, SUM(y) OVER w AS t, LAST_VALUE(NULLIF(y, 1) IGNORE NULLS) OVER w AS l, RANK() OVER w AS n FROM G "
    "WINDOW w AS (PARTITION BY x ORDER BY y)"
)
ASOF = (
    "SELECT r.x, r.y, s.x AS seen, s.tag FROM R r ASOF LEFT JOIN (SELECT x, MIN(tag) AS tag FROM S GROUP BY x) s "
    "ON r.y >= s.x"
)

SUBJECTS = (
    Subject("tree", THREE_HOP, {"G": PAIR}, memory),
    Subject("strings", TAGS, {"R": PAIR, "S": TAGGED}, memory),
    Subject("support", PROJECTED, {"R": PAIR, "S": TAGGED}, memory),
    Subject("generic bag", SQUARE, {"G": PAIR}, memory),
    Subject("triangle bag", TRIANGLE, {"G": PAIR}, memory),
    Subject("triangle counts", CORNER, {"G": PAIR}, memory),
    Subject("triangle bag in a tree", WAY_OUT, {"G": PAIR}, memory),
    Subject("triangles with copies", COPIES_OF_TRIANGLES, {"G": PAIR}, memory),
    Subject("squares with copies", COPIES_OF_SQUARES, {"G": PAIR}, memory),
    Subject("mapped squares with copies", COPIES_OF_SQUARES, {"G": PAIR}, mapped),
    Subject("squares with copies of threads", COPIES_OF_SQUARES, {"G": PAIR}, _threads),
    Subject("triangle of wide keys", WIDE, {"G": TENANTS}, memory),
    Subject("threads", THREE_HOP, {"G": PAIR}, _threads),
    Subject("threads with strings", TAGS, {"R": PAIR, "S": TAGGED}, _threads),
    Subject("mapped", THREE_HOP, {"G": PAIR}, mapped),
    Subject("mapped bag", TRIANGLE, {"G": PAIR}, mapped),
    Subject("mapped bag of wide keys", WIDE, {"G": TENANTS}, mapped),
    Subject("groups", GROUPS, {"R": PAIR, "S": TAGGED}, memory),
    Subject("groups of threads", GROUPS, {"R": PAIR, "S": TAGGED}, _threads),
    Subject("one call", ONE_CALL, {"G": PAIR}, memory),
    Subject("mapped one call", ONE_CALL, {"G": PAIR}, mapped),
    Subject("call that comes back", STOPPED_CALL, {"G": PAIR}, memory),
    Subject("mapped call that comes back", STOPPED_CALL, {"G": PAIR}, mapped),
    Subject("one call of a join and groups", JOINED_CALL, {"G": PAIR, "H": PAIR}, memory),
    Subject("mapped one call of a join and groups", JOINED_CALL, {"G": PAIR, "H": PAIR}, mapped),
    Subject("one call of a join that keeps duplicates", COUNTED_CALL, {"G": PAIR, "H": PAIR}, memory),
    Subject("outer join", OUTER, {"R": PAIR, "S": TAGGED}, memory),
    Subject("missing keys", MISSING, {"R": PAIR, "S": TAGGED}, memory),
    Subject("set operations", SETS, {"G": PAIR, "H": PAIR}, memory),
    Subject("rows", ROWS, {"G": PAIR}, memory),
    Subject("mapped groups", GROUPS, {"R": PAIR, "S": TAGGED}, mapped),
    Subject("first rows", FIRST, {"R": PAIR, "S": TAGGED}, memory),
    Subject("windows", WINDOWS, {"G": PAIR}, memory),
    Subject("asof join", ASOF, {"R": PAIR, "S": TAGGED}, memory),
    Subject("mapped asof join", ASOF, {"R": PAIR, "S": TAGGED}, mapped),
    Subject("recursion", RECURSION, {"G": PAIR}, memory),
    Subject("mapped recursion", RECURSION, {"G": PAIR}, mapped),
    Subject("recursion of two", EVEN, {"G": PAIR}, memory),
    Subject("mapped recursion of two", EVEN, {"G": PAIR}, mapped),
    Subject("recursion with min", NEAREST, {"G": PAIR}, memory),
    Subject("mapped recursion with min", NEAREST, {"G": PAIR}, mapped),
    Subject("database", GROUPS, {"R": PAIR, "S": TAGGED}, _database),
    Subject("enforced keys", GROUPS, {"R": PAIR, "S": TAGGED}, memory, enforced=True),
    Subject("mapped enforced keys", GROUPS, {"R": PAIR, "S": TAGGED}, mapped, enforced=True),
)


class Run:
    """One view of a subject with a history, a batch that is going to be stopped, and the oracle."""

    def __init__(self, subject: Subject, seed: int, folder: Path) -> None:
        self.subject = subject
        self.random = random.Random(seed)
        program = subject.program
        self.plan = program.plan or program
        self.expectation = Expectation(subject.tables, subject.answer)
        self.database = self.expectation.database
        options = {} if subject.on_missing is None else {"on_missing": subject.on_missing}
        self.view = subject.make(self.plan, folder, **options)
        first = self._draw()
        self.view.update(self.expectation.arrow(first))
        self.expectation.apply(first)
        self._go_on()
        self.before = self.after = self.expectation.result
        self.copy = self.expectation.copies()
        for attempt in range(500):
            if self.after != self.before:
                break
            self.expectation.go_back(self.copy)
            if attempt % 100 == 99:  # the result has all there can be, and hardly a batch changes it: begin again
                self._go_on(self.database.everything(-1))
                self._go_on()
                self.before = self.expectation.result
                self.copy = self.expectation.copies()
            self.give(self._draw())
        assert self.after != self.before, "nothing would tell whether the batch is applied"

    def give(self, batch: Batch) -> None:
        """Takes a batch as the one that is going to be stopped."""
        self.expectation.go_back(self.copy)
        self.batch = batch
        self.expectation.apply(batch)
        self.after = self.expectation.result

    def roll_back(self) -> None:
        """Applies the inverse of the batch, after which all is as before."""
        assert self._found() == self.after
        self._go_on({name: [(row, -weight) for row, weight in changes] for name, changes in self.batch.items()})
        self.after = self.expectation.result

    def absent(self, name: str) -> Row:
        """Returns a row whose whole numbers and texts are in no row of the tables and of the batch."""
        unknown = {"int64": -1, "string": "a tag that no row has"}
        kinds = [column.type for column in self.database.schema[name].columns]
        return tuple(unknown.get(kind, self._value(kind)) for kind in kinds)

    def enlarged(self, at: float) -> Batch:
        """Returns the batch with large numbers, which are no keys, in the rows that it inserts behind a place. Seven
        times such a number is an int64."""
        found = {}
        for name, changes in self.batch.items():
            table, rows = self.database.schema[name], list(changes)
            large = [column.type == "int64" and bool(table.key) and column.name not in table.key
                     for column in table.columns]  # fmt: skip
            found[name] = [
                (tuple(2**60 if far else value for far, value in zip(large, row, strict=True)), weight)
                if weight > 0 and i >= at * len(rows)
                else (row, weight)
                for i, (row, weight) in enumerate(rows)
            ]
        return found

    @property
    def changes(self) -> dict[str, Any]:
        return self.expectation.arrow(self.batch)

    @property
    def engines(self) -> list[Any]:
        engine: Any = self.view._engine
        return [engine.memory]

    def verify(self, *, applied: bool | None = None, may_be_lost: bool = True) -> str:
        """The law, after the batch was stopped; ``applied``: which of both states it must be. Returns what it is."""
        if self.view._engine.lost:
            assert may_be_lost, "the state is lost"
            self._refuses_everything()
            return "lost"
        found = self._found()
        if found == self.after and applied is not False:
            state = "after"
        else:
            assert found == self.before, f"{self.subject}: neither before nor after"
            assert applied is not True, f"{self.subject}: the batch is not applied"
            self.expectation.go_back(self.copy)
            state = "before"
        self.view.check_invariants()
        assert self.view.count() == sum(found.values())
        for row in sorted(found, key=repr)[:3]:
            assert self.view.contains(row)
        first = self._draw()
        left_out = self.random.choice(list(first))  # what is left of the stopped batch must not take its place
        self._go_on({name: rows for name, rows in first.items() if name != left_out or len(first) == 1})
        self._go_on()
        self._go_on(self.database.everything(-1))
        assert self.view.count() == sum(self.expectation.result.values())
        self.view.check_invariants()
        return state

    def _refuses_everything(self) -> None:
        view = self.view
        row = (None,) * len(view.schema.names)
        calls: list[Callable[[], Any]] = [
            lambda: view.apply(self.changes),
            lambda: view.update(self.changes),
            lambda: view.apply_batches(self.changes),
            view.count,
            view.to_table,
            lambda: view.contains(row),
            lambda: view.save("never written"),
            view.compact,
            view.stats,
            view.check_invariants,
        ]
        for call in calls:
            with pytest.raises(UnusableStateError):
                call()

    def _go_on(self, batch: Batch | None = None) -> None:
        """A further batch, whose delta is compared."""
        batch = self._draw() if batch is None else batch
        delta = self.view.apply(self.expectation.arrow(batch))
        assert net([delta]) == self.expectation.apply(batch)

    def _found(self) -> Counter[Row]:
        return Counter(rows(self.view.to_table()))

    def _draw(self) -> Batch:
        batch: dict[str, list[tuple[Row, int]]] = {}
        for table in self.database.schema.values():
            present = list(self.database.rows[table.name])
            gone = self.random.sample(present, min(len(present), 6))
            fresh = [tuple(self._value(column.type) for column in table.columns) for _ in range(14)]
            unique = [i for i, column in enumerate(table.columns) if self.subject.enforced or column.name in table.key]
            if unique:
                left = {tuple(row[i] for i in unique) for row in set(present) - set(gone)}
                by_key = {tuple(row[i] for i in unique): row for row in fresh}
                fresh = [row for key, row in by_key.items() if key not in left]
            copies = (1,) if unique else (1, 1, 2)
            batch[table.name] = [(row, -1) for row in gone] + [(row, self.random.choice(copies)) for row in fresh]
        return self.database.without_absent_deletes(batch)

    def _value(self, kind: str) -> object:
        if kind == "string":
            return f"tag {self.random.randrange(self.random.choice((3, 300)))}"
        if kind == "date":
            return date(2024, 1, 1) + timedelta(self.random.randrange(9))
        if kind.startswith("decimal"):
            return Decimal(self.random.randrange(100)).scaleb(-2)
        return self.random.randrange(7 if kind == "int64" else 2)
