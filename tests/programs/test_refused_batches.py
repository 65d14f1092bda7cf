"""Batches that are really refused, midway, over random queries and streams: by a budget, or for an absent delete.

Every batch is given a budget that ends somewhere within what it needs, several times, before it gets enough. Some of
its deletes find nothing; where that is an error the batch is refused, and comes again without them. After each refusal
the view is as it was: its rows, its memory, its counters, its invariants. In the end its rows are those of DuckDB, with
windows, upserts and enforced keys, too, and those of a view that accepted every batch at once.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import MemoryBudgetError, MissingDeleteError
from crown.store import memory
from plans import PlanError, program
from plans.search.cells.shares import grids_of
from tests.engine.stopping.stops import small_blocks
from tests.marks import seeds, turns
from tests.oracles import duck
from tests.oracles.database import Row, to_arrow
from tests.oracles.declared import Declared
from tests.plans.lowering.program_queries import QUERIES, TABLES
from tests.plans.lowering.random_queries import Writer
from tests.plans.lowering.test_programs import rounded
from tests.programs.keyed_batches import absent_rows, keyed_batch, together
from tests.programs.results import rows_of

ENOUGH = 1 << 28  # words
SMALL = 64  # words: lists and heaps have not the same room each time
FULL = (0.0, 0.3, 0.6, 0.9)  # of what a batch takes, before it is refused
KEYED = {"columns": {"k": "int64", "v": "int64", "d": "decimal(10,2)"}, "key": ["k"]}
TOLD: dict[str, dict[str, Any]] = {
    "plain": {},
    "windows": {},
    "enforced": {"t": {**KEYED, "enforced": True}},
    "upserts": {"t": {**KEYED, "upserts": True}},
}
"""What is declared beside the tables. Tables that have no key then, or some of them, are within windows."""


def windows_of(random: Random, told: str) -> dict[str, Any]:
    names = sorted(TABLES) if told == "windows" else random.sample(sorted({*TABLES} - {"t"}), random.randrange(3))
    return {} if told == "plain" else {name: crown.last_rows(9) for name in names}


def value(random: Random, name: str, column: str) -> Any:
    if column == "c":
        return random.choice(("p", "q", None, f"a text that is as long as number {random.randrange(40)}"))
    if column == "d":
        return random.choice((Decimal("1.50"), Decimal("-0.25"), None))
    if column == "x":
        return random.choice((0.5, -1.25, 2.0, None))
    if name == "t" and column == "k":
        return random.randrange(30)
    return None if random.random() < 0.1 else random.randrange(9)


def opened(query: str, schema: dict[str, Any], kind: str, folder: Path, options: dict[str, Any]) -> crown.View:
    if kind == "folder":
        return crown.open(query, folder / "view", schema, **options)
    more: dict[str, Any] = {"threads": 2} if kind == "threads" else {"path": folder / "state"} if kind == "file" else {}
    return crown.view(query, schema, **options, **more)


def seen(view: crown.View) -> tuple[Any, ...]:
    """What a refused batch leaves as it was."""
    return rows_of(view), view.stats()["missing_deletes"], view.stats()["input_rows"]


def refuse(view: crown.View, changes: dict[str, Any], needed: int) -> int:
    """Offers a batch with too little memory, again and again, then with enough; returns how often it was refused."""
    limits, before, refused = view._engine.memory.budget, seen(view), 0
    words = limits.used
    for part in FULL:
        left = []
        for _ in range(3):
            limits.change(words + int(part * max(needed, 0)))
            try:
                view.apply(changes)
            except MemoryBudgetError:
                refused += 1
            else:
                return refused
            finally:
                limits.change(ENOUGH)
            assert seen(view) == before
            view.check_invariants()
            view._engine.compact()
            left.append(limits.used)
        # What the first compaction frees lets the second batch go further.
        assert left[2] <= left[1] + SMALL, "tables may have grown until then; nothing else is left over"
    view.apply(changes)
    return refused


def offered(view: crown.View, changes: dict[str, Any]) -> None:
    """Offers a batch that deletes what is absent, which is an error."""
    before = seen(view)
    with pytest.raises(MissingDeleteError):
        view.apply(changes)
    assert seen(view) == before
    view.check_invariants()


def planned(random: Random) -> str:
    """Returns a random query that is planned."""
    while True:
        query = Writer(random.randrange(1 << 30), TABLES).query()
        with suppress(PlanError):
            program(query, TABLES, dialect="duckdb")
            return query


def maintain(query: str, random: Random, told: str, kind: str, folder: Path, dialect: str) -> Counter[str]:
    """Returns how often batches were refused, by what for, and how many deletes found nothing."""
    schema = TABLES | TOLD[told]
    read = {table.name for table in program(query, schema, dialect=dialect).tables}
    windows = {n: w for n, w in windows_of(random, told).items() if n in read}
    options: dict[str, Any] = {"windows": windows, "dialect": dialect}
    made = program(query, schema, **options)
    if kind == "threads" and not any(grid.cells > 1 for grid in grids_of(made, 2)):
        kind = "memory"
    strict = random.random() < 0.5
    options["on_missing"] = "raise" if strict else "ignore"
    view, other = opened(query, schema, kind, folder, options), crown.view(query, schema, **options)

    def drawn(name: str) -> Row:
        return tuple(value(random, name, column) for column in truth.database.columns(name))

    truth, counts = Declared(TABLES, made, whole=strict, upserts=told == "upserts"), Counter[str]()
    for turn in (*turns(3, 5), None):
        batch, absent = truth.database.everything(-1), {}
        if turn is not None:
            batch = keyed_batch(random, truth.database, drawn, tables=4, gone=5, fresh=12)
            absent = absent_rows(random, truth.database, drawn, read)
        whole = together(absent, batch)
        missing = truth.missing(whole)
        changes = {n: to_arrow(truth.database.schema, n, rows) for n, rows in whole.items() if n in read}
        if strict and missing:
            for one in (view, other):
                offered(one, changes)
            counts["strict"] += 1
            whole = batch
            changes = {n: to_arrow(truth.database.schema, n, rows) for n, rows in whole.items() if n in read}
        before = other._engine.memory.budget.used
        other.apply(changes)
        needed = other._engine.memory.budget.used - before
        refused = refuse(view, changes, needed)
        assert refused or needed < SMALL
        counts.update(refused=refused, missing=missing)
        truth.apply(whole)
        assert seen(view) == seen(other)
        assert rounded(rows_of(view)) == rounded(duck.results(query, truth.database))
    if kind == "folder":
        found = rows_of(view)
        view.close()  # type: ignore[attr-defined]
        with crown.open(query, folder / "view", schema, **options) as again:
            assert rows_of(again) == found
    return counts


FEW = 3
KINDS = ("memory", "threads", "file", "folder", "pieces")


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("seed", seeds(FEW, 150))
def test_a_refused_batch_leaves_the_view_as_it_was(
    seed: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{seed} {told}")
    query, dialect = (planned(random), "duckdb") if seed % 2 else (random.choice(QUERIES), "spark")
    kind = KINDS[seed % len(KINDS)] if told == "plain" else random.choice(("memory", "folder"))
    if kind == "pieces":
        monkeypatch.setattr(memory, "limit_of_addresses", lambda: 1 << 46)
    with small_blocks():
        counts = maintain(query, random, told, kind, tmp_path, dialect)
    if seed < FEW:  # some others need hardly any memory
        assert counts["refused"] > 0
        assert counts["missing"] > 0
