"""Several cells give what one engine gives: same deltas, same result, whatever the types, after a reload too."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crown
import plans
from crown.engine import buffers
from crown.errors import CrownError, MemoryBudgetError, MissingDeleteError
from crown.results.head import OutputHead
from crown.store.zset import Zset
from tests.engine.made import engine_of, join_of
from tests.marks import slow

CHAIN = {"r": {"a": "int64", "b": "string"}, "s": {"b": "string", "c": "int64"}, "t": {"c": "int64", "d": "string"}}
EDGES = {"e": {"s": "int64", "d": "int64"}}
QUERIES = [
    pytest.param("Q(a,b,c,d) :- r(a,b), s(b,c), t(c,d).", CHAIN, id="full join over strings"),
    pytest.param("Q(b,c) :- r(a,b), s(b,c), t(c,d).", CHAIN, id="join-project"),
    pytest.param("Q(a,d) :- r(a,b), s(b,c), t(c,d).", CHAIN, id="counted outputs"),
    pytest.param("Q(a,b,c) :- e(a,b), e(b,c), e(c,a).", EDGES, id="triangle"),
    pytest.param("Q(a,b,c,d) :- e(a,b), e(b,c), e(c,d), e(d,a).", EDGES, id="four-cycle"),
]


def counted(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def batch(rng: random.Random, schema: dict[str, dict[str, str]]) -> dict[str, list[dict[str, Any]]]:
    def value(kind: str) -> Any:
        return rng.randrange(5) if kind == "int64" else f"s{rng.randrange(5)}"

    return {
        name: [
            {c: value(k) for c, k in columns.items()} | {"_weight": rng.choice([1, 1, -1])}
            for _ in range(rng.choice([0, 3, 9]))
        ]
        for name, columns in schema.items()
    }


@pytest.mark.parametrize("threads", [3, slow(2), slow(4)])
@pytest.mark.parametrize(("query", "schema"), QUERIES)
def test_cells_agree_with_one_engine(
    query: str, schema: dict[str, dict[str, str]], threads: int, tmp_path: Path
) -> None:
    rng = random.Random(threads)
    one, many = crown.view(query, schema), crown.view(query, schema, threads=threads)
    for step in range(20):
        changes = batch(rng, schema)
        assert counted(one.apply(changes)) == counted(many.apply(changes))
        assert counted(one.to_table()) == counted(many.to_table())
        assert one.count() == many.count()
        many.check_invariants()
        if step == 10:
            many.save(tmp_path / "view.crown")
            many = crown.load(tmp_path / "view.crown")
            stats = many.stats()  # of the whole program, or of its join alone
            assert stats.get("cells", stats["stages"][0].get("cells")) == threads


def test_a_closed_iterator_applies_the_whole_batch_in_every_cell() -> None:
    rng = random.Random(0)
    one, many = crown.view(QUERIES[0].values[0], CHAIN), crown.view(QUERIES[0].values[0], CHAIN, threads=2)
    for _ in range(10):
        changes = batch(rng, CHAIN)
        one.apply(changes)
        many.apply_batches(changes).close()  # type: ignore[attr-defined]
        assert counted(one.to_table()) == counted(many.to_table())


def test_a_batch_that_one_cell_refuses_is_rolled_back_in_all() -> None:
    many = crown.view("Q(a,b,c) :- e(a,b), e(b,c).", EDGES, threads=2, memory_budget=1 << 18)
    many.apply({"e": [{"s": i, "d": i + 1} for i in range(50)]})
    before = counted(many.to_table())
    with pytest.raises(MemoryBudgetError, match="it was undone"):
        many.apply({"e": [{"s": i, "d": i + 1} for i in range(100, 20_000)]})
    assert counted(many.to_table()) == before
    many.check_invariants()


def test_a_missing_delete_is_refused_before_any_cell_changes() -> None:
    many = crown.view("Q(a,b,c) :- e(a,b), e(b,c).", EDGES, threads=4, on_missing="raise")
    many.apply({"e": [{"s": 1, "d": 2}, {"s": 2, "d": 3}]})
    with pytest.raises(MissingDeleteError):
        many.apply({"e": [{"s": 3, "d": 4, "_weight": 1}, {"s": 7, "d": 8, "_weight": -1}]})
    assert many.count() == 1
    many.check_invariants()


def test_a_query_without_a_hashable_output_cannot_be_cut() -> None:
    with pytest.raises(CrownError, match="this query has no such column"):
        crown.view("Q() :- e(a,b).", EDGES, threads=2)


def test_closing_early_hides_no_refusal_and_leaves_no_cell_behind() -> None:
    many = crown.view("Q(a,b,c) :- e(a,b), e(b,c).", EDGES, threads=2, memory_budget=1 << 18)
    many.apply({"e": [{"s": i, "d": i + 1} for i in range(50)]})
    before = counted(many.to_table())
    hub = [{"s": 7, "d": i} for i in range(100, 20_000)]  # b = 7 and c = 7 live in one cell each
    with pytest.raises(MemoryBudgetError):
        many.apply_batches({"e": hub}).close()  # type: ignore[attr-defined]
    assert counted(many.to_table()) == before
    many.check_invariants()


@pytest.mark.parametrize("failing", range(6))
def test_what_keeps_failing_in_one_cell_does_not_keep_the_others_from_taking_the_batch_back(failing: int) -> None:
    def evaluated(head: OutputHead, block: Zset) -> Zset:
        if next(calls) >= failing:
            raise ValueError("no")
        return codes(head, block)

    codes, calls = OutputHead.codes, itertools.count()
    many = crown.view("Q(a,d) :- r(a,b), s(b,c), t(c,d).", CHAIN, threads=2)
    assert many.plan.support
    rng = random.Random(failing)
    for _ in range(5):
        many.apply(batch(rng, CHAIN))
    before = counted(many.to_table())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputHead, "codes", evaluated)
        with suppress(ValueError):
            many.apply({name: [row | {"_weight": -9} for row in rows] for name, rows in everything(CHAIN).items()})
    assert counted(many.to_table()) == (before if next(calls) > failing else {})
    many.check_invariants()


def test_what_one_cell_refuses_to_discard_is_rolled_back_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise MemoryBudgetError("no room")

    many = engine_of(plans.plan("Q(a,b,c) :- e(a,b), e(b,c).", EDGES), threads=2)
    many.discard({"e": pa.table({"s": range(50), "d": range(1, 51)})})
    before, cores = many.result.count(), join_of(many).cores
    monkeypatch.setattr(cores[1], "_begin", refuse)
    with pytest.raises(MemoryBudgetError):
        many.discard({"e": pa.table({"s": range(100, 150), "d": range(101, 151)})})
    assert many.result.count() == before > 0
    many.check_invariants()


UNREAD = """
import crown, pyarrow as pa
edges = pa.table({"s": [i % 1000 for i in range(30_000)], "d": [i % 997 for i in range(30_000)]})
view = crown.view("Q(a,b,c) :- e(a,b), e(b,c).", {"e": {"s": "int64", "d": "int64"}}, threads=2)
deltas = view.apply_batches({"e": edges})
print(sum(next(deltas).num_rows for _ in range(3)) > 0, "and the rest is never read")
"""


def test_deltas_that_nobody_reads_do_not_keep_python_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", UNREAD], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True and the rest is never read\n"
    assert "Exception" not in done.stderr, done.stderr


AT_EXIT = """
import atexit, sys, time
import crown, pyarrow as pa
query, rows = "SELECT a, COUNT(*) AS n FROM r GROUP BY a", {"r": pa.table({"a": range(1000)})}
view = crown.view(query, {"r": {"a": "int64"}}, threads=2)
def late():
    time.sleep(0.2)  # threads that end with Python have ended
    print(view.apply(rows).num_rows, view.count(), flush=True)
atexit.register(late)
if sys.argv[1] == "used":
    view.apply(rows)
"""


@pytest.mark.parametrize(("used", "deltas"), [("used", 2000), ("new", 1000)])
def test_a_batch_is_applied_while_python_ends(used: str, deltas: int) -> None:
    command = [sys.executable, "-c", AT_EXIT, used]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{deltas} 1000\n"
    assert "Exception" not in done.stderr, done.stderr


def test_a_reader_may_leave_while_cells_wait_for_it() -> None:
    rng = random.Random(1)
    edges = [{"s": rng.randrange(100), "d": rng.randrange(100)} for _ in range(6_000)]
    one = crown.view("Q(a,b,c) :- e(a,b), e(b,c).", EDGES)
    one.apply({"e": edges})
    for read in (0, 1, 5, 12):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(buffers, "BLOCK_CELLS", 512)
            many = crown.view("Q(a,b,c) :- e(a,b), e(b,c).", EDGES, threads=2)
        deltas = many.apply_batches({"e": edges})
        found = [next(deltas) for _ in range(read)]
        time.sleep(0.2)  # all cells are as far ahead as they may be
        deltas.close()  # type: ignore[attr-defined]
        assert len(found) == read
        assert many.count() == one.count()
        many.check_invariants()


def everything(schema: dict[str, dict[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """All rows that ``batch`` may draw."""

    def values(kind: str) -> list[Any]:
        return [i if kind == "int64" else f"s{i}" for i in range(5)]

    return {
        name: [dict(zip(columns, row, strict=True)) for row in itertools.product(*map(values, columns.values()))]
        for name, columns in schema.items()
    }
