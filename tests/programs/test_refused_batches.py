"""Batches that a memory budget really refuses, midway, over random queries and streams.

Every batch is given a budget that ends somewhere within what it needs, several times, before it gets enough. After each
refusal the view is as it was: its rows, its memory, its invariants. In the end its rows are those of DuckDB, and those
of a view that accepted every batch at once; with windows, upserts and enforced keys of the latter.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import MemoryBudgetError
from crown.store import memory
from plans import program
from plans.search.shares import grids_of
from tests.engine.stopping.stops import small_blocks
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.lowering.program_queries import QUERIES, TABLES
from tests.plans.lowering.random_programs import Writer
from tests.plans.lowering.test_programs import rounded
from tests.programs.keyed_batches import keyed_batch
from tests.programs.results import rows_of

ENOUGH = 1 << 28  # words
SMALL = 64  # words: lists and heaps have not the same room each time
FULL = (0.0, 0.3, 0.6, 0.9)  # of what a batch takes, before it is refused
KEYED = {"columns": {"k": "int64", "v": "int64", "d": "decimal(10,2)"}, "key": ["k"]}
TOLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "windows": ({}, {"windows": {name: crown.last_rows(9) for name in TABLES}}),
    "enforced": ({"t": {**KEYED, "enforced": True}}, {}),
    "upserts": ({"t": {**KEYED, "upserts": True}}, {}),
}
"""What is declared beside the tables, and options of the view."""


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


def batch_of(random: Random, database: Database) -> dict[str, list[tuple[Row, int]]]:
    def drawn(name: str) -> Row:
        return tuple(value(random, name, column) for column in database.columns(name))

    return keyed_batch(random, database, drawn, tables=4, gone=5, fresh=12)


def opened(query: str, schema: dict[str, Any], kind: str, folder: Path, options: dict[str, Any]) -> crown.View:
    if kind == "folder":
        return crown.open(query, folder / "view", schema, **options)
    more: dict[str, Any] = {"threads": 2} if kind == "threads" else {"path": folder / "state"} if kind == "file" else {}
    return crown.view(query, schema, **options, **more)


def refuse(view: crown.View, changes: dict[str, Any], needed: int) -> int:
    """Offers a batch with too little memory, again and again, then with enough; returns how often it was refused."""
    limits, before, refused = view._engine.memory.budget, rows_of(view), 0
    words = limits.used
    for part in FULL:
        left = []
        for _ in range(2):
            limits.change(words + int(part * max(needed, 0)))
            try:
                view.apply(changes)
            except MemoryBudgetError:
                refused += 1
            else:
                return refused
            finally:
                limits.change(ENOUGH)
            assert rows_of(view) == before
            view.check_invariants()
            view._engine.compact()
            left.append(limits.used)
        assert left[1] <= left[0] + SMALL, "tables may have grown the first time; nothing else is left over"
    view.apply(changes)
    return refused


def maintain(query: str, random: Random, told: str, kind: str, folder: Path) -> None:
    declared, options = TOLD[told]
    schema = TABLES | declared
    made = program(query, schema)
    read = {table.name for table in made.tables}
    if kind == "threads" and not any(grid.cells > 1 for grid in grids_of(made, 2)):
        kind = "memory"
    options = {name: {of: window for of, window in value.items() if of in read} for name, value in options.items()}
    view, other = opened(query, schema, kind, folder, options), crown.view(query, schema, **options)
    database = Database(TABLES)
    for turn in range(6):
        batch = batch_of(random, database) if turn < 5 else database.everything(-1)
        changes = {n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in read}
        before = other._engine.memory.budget.used
        other.apply(changes)
        needed = other._engine.memory.budget.used - before
        refused = refuse(view, changes, needed)
        assert refused or needed < SMALL
        database.apply(batch)
        assert rows_of(view) == rows_of(other)
        if told == "plain":
            assert rounded(rows_of(view)) == rounded(duck.results(query, database))
    if kind == "folder":
        found = rows_of(view)
        view.close()  # type: ignore[attr-defined]
        with crown.open(query, folder / "view", schema, **options) as again:
            assert rows_of(again) == found


KINDS = ("memory", "threads", "file", "folder", "pieces")


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("seed", seeds(6, 150))
def test_a_refused_batch_leaves_the_view_as_it_was(
    seed: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{seed} {told}")
    query = Writer(random.randrange(1 << 30)).query() if seed % 2 else random.choice(QUERIES)
    kind = KINDS[seed % len(KINDS)] if told == "plain" else random.choice(("memory", "folder"))
    if kind == "pieces":
        monkeypatch.setattr(memory, "limit_of_addresses", lambda: 1 << 46)
    with small_blocks():
        maintain(query, random, told, kind, tmp_path)
