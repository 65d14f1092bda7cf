"""Scans: the codes, weights and rows that the slower way gives, of batches with NULLs, slices and tests of any kind."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, ConcurrentChangeError
from crown.expressions.program import native
from crown.ingest.changes import WEIGHT, Checker
from crown.ingest.selection import Selection
from crown.ingest.tables.given import Columns, HashPartition
from crown.store.codec import NULL, uses_dictionary
from plans.expressions.build import call, col, lit
from plans.expressions.expr import Expr
from plans.schema import Column, Table
from plans.search.cells.shares import HASHABLE
from plans.types import arrow_type
from tests.ingest.test_selection import VALUES, condition
from tests.marks import seeds

WIDE = {**VALUES, "bool": [True, False], "decimal(38,2)": VALUES["decimal(6,2)"]}


def compared(random: Random, kinds: dict[str, str]) -> Expr:
    """Returns a condition: on single columns, or on two of one type."""
    pairs = [(a, b) for a in kinds for b in kinds if a != b and kinds[a] == kinds[b] and kinds[a] in VALUES]
    if not pairs or random.random() < 0.6:
        return condition(random, {name: kind for name, kind in kinds.items() if kind in VALUES})
    left, right = random.choice(pairs)
    op = random.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    return call(op, col(left, kinds[left]), col(right, kinds[right]))


def batch_of(random: Random, kinds: dict[str, str], n: int, nulls: bool) -> pa.RecordBatch:
    """Returns a batch of ``n`` rows, perhaps a part of a larger one, with a column that is not read."""
    before = random.choice([0, 3, 70])
    arrays, names = [], []
    for name, kind in kinds.items():
        values = [random.choice([*WIDE[kind], *([None] if nulls else [])]) for _ in range(n + before)]
        arrays.append(pa.array(values, arrow_type(kind)))
        names.append(name)
    extra = random.randrange(len(names) + 1)
    arrays.insert(extra, pa.array(["beside"] * (n + before)))
    names.insert(extra, "beside")
    arrays.append(pa.array([random.choice([-1, 1, 1, 2, 0]) for _ in range(n + before)], pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, [*names, WEIGHT]).slice(before)


@pytest.mark.parametrize("seed", seeds(30, 600))
def test_a_scan_reads_what_the_columns_are_coded_as(seed: int) -> None:
    random = Random(seed)
    kinds = {f"c{i}": random.choice(sorted(WIDE)) for i in range(random.randint(1, 4))}
    kinds["whole"] = "int64"
    conditions = [compared(random, kinds) for _ in range(random.choice([0, 1, 1, 2]))]
    selection = Selection([frozenset(one.conjuncts()) for one in conditions], kinds, True) if conditions else None
    table = Table("r", tuple(Column(name, kind) for name, kind in kinds.items()))
    tests = selection.tests if selection else ()
    checker = Checker(table, tuple(kinds), tests)
    for n in (1, 63, 64, 200):
        batch = batch_of(random, kinds, n, random.random() < 0.5)
        found = checker.check(batch)
        assert found.scanned is not None
        codes, weights, rows, nulls, others = found.scanned
        assert others == 0
        columns = Columns({name: batch[name] for name in kinds}, kinds)
        wanted = np.arange(n)
        if tests:
            assert selection is not None
            kept = selection.rows(columns, n, _no_text)
            kept = wanted if kept is None else kept
            wanted = wanted if rows is None else rows
            assert set(kept.tolist()) <= set(wanted.tolist())
            assert not selection.exact or kept.tolist() == wanted.tolist()
        given = np.frombuffer(batch[WEIGHT].buffers()[1], np.int64)[batch[WEIGHT].offset :][:n]
        assert weights.tolist() == given[wanted].tolist()
        assert found.weights.tolist() == given.tolist()
        plain = [i for i, kind in enumerate(kinds.values()) if not uses_dictionary(kind)]
        for i in plain:
            name = list(kinds)[i]
            assert codes[i].tolist() == columns.codes(name, _no_text)[wanted].tolist()
            assert repr(found.columns[name].to_pylist()) == repr(batch[name].to_pylist())
        assert nulls == (codes[plain] == NULL).any()


@pytest.mark.parametrize("kind", [kind for kind in WIDE if kind in HASHABLE])
def test_a_scan_deals_each_row_to_one_cell_as_arrays_do(kind: str) -> None:
    random, kinds = Random(kind), {"c": kind, "whole": "int64"}
    table = Table("r", tuple(Column(name, kind) for name, kind in kinds.items()))
    tests = Selection([frozenset([call("gt", col("whole", "int64"), lit(0, "int64"))])], kinds, True).tests
    for n in (1, 63, 64, 200):
        batch = batch_of(random, kinds, n, True)
        columns = Columns({name: batch[name] for name in kinds}, kinds)
        every, read = list[int](), list[int]()
        for cell in range(3):
            partition = HashPartition("c", 3, cell)
            rows = partition.rows(columns, n).tolist()
            scanned, chosen = (Checker(table, tuple(kinds), of, partition).check(batch).scanned for of in ((), tests))
            assert scanned is not None
            assert chosen is not None
            assert (list(range(n)) if scanned.rows is None else scanned.rows.tolist()) == rows
            assert scanned.others == chosen.others == n - len(rows)
            every += rows
            read += range(n) if chosen.rows is None else chosen.rows.tolist()
        assert sorted(every) == list(range(n))
        assert sorted(read) == [i for i, value in enumerate(batch["whole"].to_pylist()) if value and value > 0]


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("a", -(2**63), "stands for NULL"),
        ("b", None, "declared NOT NULL"),
        (WEIGHT, None, "missing"),
        (WEIGHT, 2**31, "out of range"),
    ],
)
def test_a_batch_with_a_row_that_cannot_be_taken_is_not_scanned(column: str, value: Any, why: str) -> None:
    table = Table("r", (Column("a", "int64"), Column("b", "int64", required=True)))
    checker = Checker(table, ("a", "b"))
    values = {"a": [1, 2, 3], "b": [1, 2, 3], WEIGHT: [1, 1, -1]}
    assert checker.check(pa.record_batch(values)).scanned is not None
    values[column] = [*values[column][:2], value]
    found = checker.check(pa.record_batch(values))
    assert found.scanned is None
    assert why == "stands for NULL" or why in found.bad[2]


def test_batches_of_several_threads_are_read_each_by_itself() -> None:
    """A kernel runs without the GIL, so a batch in another thread may come in between: it may be refused, not mixed."""
    view = crown.view(
        "SELECT p, q, n FROM t WHERE n >= 0", {"t": {"p": "string", "q": "string", "n": "int64"}}, on_missing="trust"
    )
    n = 50_000
    first = pa.table({"p": ["p"] * n, "q": ["q"] * n, "n": range(n)})
    given = [first, first.slice(0, 10).select(["q", "p", "n"])]
    wrong: list[BaseException] = []

    def apply(table: pa.Table) -> None:
        for _ in range(15):
            try:
                view.update({"t": table})
            except ConcurrentChangeError:
                pass
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=apply, args=(table,)) for table in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    found = view.to_table()
    assert set(found["p"].to_pylist()) <= {"p"}
    assert set(found["q"].to_pylist()) <= {"q"}


def test_long_lists_are_left_to_arrow_which_hashes_them() -> None:
    kinds = {"a": "int64", "s": "string"}
    for name, few, many in (("a", range(64), range(65)), ("s", map(str, range(16)), map(str, range(17)))):
        for values, exact in ((few, True), (many, False)):
            expr = call("in", col(name, kinds[name]), *(lit(value) for value in values))
            found = Selection([frozenset([expr])], kinds, True)
            assert found.exact == exact
            assert bool(found.tests) == exact
    assert native((call("in", col("a", "int64"), *map(lit, range(32))),)) is not None
    assert native((call("in", col("a", "int64"), *map(lit, range(33))),)) is None


def test_a_time_that_stands_for_null_is_a_bad_row_where_late_rows_are_looked_for() -> None:
    schema = {"t": {"at": "timestamp", "a": "int64"}}
    rows = pa.table({"at": pa.array([0, -(2**63)], pa.int64()).cast(pa.timestamp("us", "UTC")), "a": [1, 2]})
    for late in ("raise", "drop"):
        view = crown.view("SELECT a FROM t", schema, windows={"t": crown.ttl("at", "1 hour", late=late)})
        with pytest.raises(BadRowError, match="row 1"):
            view.apply({"t": rows})


def _no_text(values: Any, add: bool) -> np.ndarray:
    raise AssertionError("no column of text is coded")
