"""Every stage and every store is run through its law, on random batches with deletes and with too little memory."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown.stages
import plans
from crown.kernels.memory.tables import table_at
from crown.programs.program import ProgramEngine
from crown.stages.fixpoint import Fixpoint
from crown.stages.groups.group import Groups
from crown.stages.joins import cyclic
from crown.stages.joins.bands import Bands
from crown.stages.joins.core import Join
from crown.stages.joins.cyclic import CyclicCount
from crown.stages.joins.single import Single
from crown.stages.linear import Linear
from crown.stages.orders import order_words
from crown.stages.over.stage import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part, Stage
from crown.stages.running.slices import Slices
from crown.stages.tables.counted_tuples import CountedTuples
from crown.stages.tables.key_counts import KeyCounts
from crown.stages.tables.timed import Timed
from crown.stages.tables.tombstones import Tombstones
from crown.stages.tables.upsert_table import Upserts, UpsertTable
from crown.stages.tables.windowed_table import WindowedTable
from crown.stages.top import Top
from crown.stages.trees import OrderedRows, Trees
from crown.store.codec import encode
from crown.store.zset import Zset
from plans.program import Program
from plans.programs.frames import Order
from plans.schema import Column, Schema
from plans.time.windows import last_rows, ttl
from tests.marks import every
from tests.plans.lowering import program_queries, recursive_queries
from tests.programs import test_clock
from tests.stages.harness import parts
from tests.stages.laws import Lawful, Store

# Stages
# ----------------------------------------------------------------------------------------------------------------------

TRIANGLES = "SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
LOOSE = {**program_queries.TABLES, "t": {"k": "int64", "v": "int64", "d": "decimal(10,2)"}}
SINGLE = "SELECT x.k, (SELECT y.v FROM t y WHERE y.k = x.k) AS v FROM t x"
BANDS = (
    "SELECT x.a, COUNT(*) AS n, SUM(x.b - y.b) AS s FROM r x, r y WHERE x.b < y.a GROUP BY x.a",
    "SELECT x.a, x.b, y.b AS d FROM r x, r y WHERE y.a BETWEEN x.a AND x.b",
    "SELECT COUNT(*) AS n, SUM(y.b) AS s FROM r x, r y WHERE y.a >= x.a AND y.a < x.b",
    "SELECT x.b, COUNT(*) AS n FROM r x, r y WHERE y.a - x.a > 1 OR y.a < x.a GROUP BY x.b",
)
SLICES = (
    "SELECT x.b FROM r x WHERE (SELECT SUM(y.b) FROM r y WHERE y.a > x.a) < 2",
    "SELECT x.a FROM r x WHERE (SELECT COUNT(*) FROM r y WHERE y.b >= x.b AND y.a = x.a) >= 2",
    "SELECT x.a FROM r x WHERE (SELECT SUM(1 - y.b) FROM r y WHERE y.a < x.a) < 0.25 * (SELECT SUM(z.b) FROM r z)",
)
_RECURSIVE = program_queries.lines(recursive_queries.RECURSIVE)
_SAMPLE = dict.fromkeys([*program_queries.QUERIES[::4], *_RECURSIVE, TRIANGLES])
CASES = [
    *((query, program_queries.TABLES) for query in _SAMPLE),
    *((query, test_clock.SCHEMA) for query in test_clock.QUERIES[::4]),
    (SINGLE, LOOSE),
    *((query, program_queries.TABLES) for query in (*BANDS, *SLICES)),
]
VALUES: dict[str, Callable[[Random], Any]] = {
    "int64": lambda random: random.choice([None, 0, 1, 2, 3]),
    "int32": lambda random: random.choice([None, 0, 1, 2, 3]),
    "string": lambda random: random.choice([None, "p", "q", "pq"]),
    "float64": lambda random: random.choice([None, 0.5, -1.0, 2.0**70]),
    "decimal(10,2)": lambda random: random.choice([None, 1, 2]),
    "timestamp": lambda random: test_clock.NOON + timedelta(minutes=random.randrange(-90, 90, 15)),
    "date": lambda random: test_clock.NOON.date() + timedelta(days=random.randint(-2, 2)),
    "timestamp_ntz": lambda random: datetime(2026, 3, 1, random.randrange(9, 15)),
}


def stream(program: Program, seed: int, most: int = 12) -> Iterator[dict[str, Any]]:
    """Batches of inserts and of deletes of rows that are there; the last one empties the tables."""
    random = Random(seed)
    there: dict[str, list[dict[str, Any]]] = {table.name: [] for table in program.tables if table.name != "now()"}
    tables = {table.name: table for table in program.tables}
    now, keys = test_clock.NOON, iter(random.sample(range(1000), 1000))
    for turn in range(5):
        batch: dict[str, Any] = {}
        for name, rows in there.items():
            table = tables[name]
            random.shuffle(rows)
            gone = rows[: len(rows) if turn == 4 else random.randint(0, len(rows) // 2)]
            there[name] = kept = rows[len(gone) :]
            come: list[dict[str, Any]] = []
            for _ in range(random.randint(0, most) if turn < 4 else 0):
                row = {column.name: VALUES[column.type](random) for column in table.columns}
                if name == "t":  # has a key, declared or not
                    row["k"] = next(keys)
                come.append(row)
            kept += come
            batch[name] = [*({**row, "_weight": -1} for row in gone), *({**row, "_weight": 1} for row in come)]
        if len(there) < len(program.tables):
            now += timedelta(minutes=random.choice([0, 15, 60]))
            batch["now()"] = [{"clock": 0, "now": now}]
        yield batch


def run(query: str, tables: Any, seed: int, threads: int = 1, **limits: Any) -> Lawful:
    """Runs all stages of a query through the law."""
    program = plans.program(query, tables)
    engine = ProgramEngine.create(program, threads=threads)
    lawful = Lawful(engine, **limits)
    for batch in stream(program, seed, 80 if limits else 12):
        lawful.batch(batch)
    return lawful


@every(CASES)
def test_every_stage_obeys_the_law(query: str, tables: Any) -> None:
    run(query, tables, len(query))


KINDS: dict[type[Stage], str] = {
    Bands: BANDS[0],
    CyclicCount: TRIANGLES,
    Fixpoint: recursive_queries.P + " SELECT a, b FROM p",
    Groups: "SELECT a, SUM(b) AS s, MAX(b) AS m FROM r GROUP BY a",
    Join: "SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a",
    Over: "SELECT a, b, SUM(b) OVER (PARTITION BY a ORDER BY b) AS s FROM r",
    Pointwise: "SELECT a FROM r UNION SELECT b FROM s",
    Single: SINGLE,
    Slices: SLICES[0],
    Timed: "SELECT a, ts FROM r WHERE NOW() BETWEEN ts AND till",
    Top: "SELECT a, b FROM r ORDER BY b, a LIMIT 3",
}


@every(
    [
        *KINDS.items(),
        (Fixpoint, recursive_queries.D + " SELECT n, d FROM p"),
        (Over, "SELECT a, b, MEDIAN(b) OVER w AS m, MAX_BY(a, b) OVER w AS x FROM r WINDOW w AS (ORDER BY a)"),
    ]
)
def test_every_kind_of_stage_obeys_it_with_too_little_memory(
    kind: type[Stage], query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cyclic, "_SLICE", 7)
    tables = test_clock.SCHEMA if kind is Timed else LOOSE
    assert kind in run(query, tables, 1, rooms=range(-1, 1500, 12)).refused


def test_there_are_no_other_kinds() -> None:
    for module in pkgutil.walk_packages(crown.stages.__path__, "crown.stages."):
        importlib.import_module(module.name)
    assert {Linear, *KINDS} == set(Stage.__subclasses__()), "linear stages have no memory"


def test_a_join_in_several_cells_obeys_the_law() -> None:
    run("SELECT x.a, y.a AS c FROM r x, r y WHERE x.b = y.b", program_queries.TABLES, 1, threads=2)


# Stores
# ----------------------------------------------------------------------------------------------------------------------

COLUMNS = (Column("a", "int64"), Column("s", "string"), Column("b", "int64"))


def _counted_tuples(part: Part) -> Store:
    part.open(1)
    counts = CountedTuples(part, 0, 3)

    def change(events: Zset) -> Zset:
        before = counts.add(events, np.zeros(len(events), np.int64), clamp=True)[:, 0]
        return Zset(events.rows, np.maximum(events.weights, -before))

    return Store(
        part, change, lambda took: counts.add(took.negated(), np.zeros(len(took), np.int64)),
        lambda: (Zset(rows, of[:, 0]) for rows, of in counts.scan()), lambda: None,
        lambda: part.mark_words(counts.table, COLUMNS), texts=(1,),
    )  # fmt: skip


def _set_counts(part: Part) -> Store:
    """Counts that are set: of a tuple that is named the weight is added, as long as it is there at all."""
    part.open(1)
    counts = CountedTuples(part, 0, 3)

    def change(events: Zset) -> Zset:
        before = counts.counts_of(events)
        after = np.maximum(before + events.weights[:, None], 0)
        counts.put(events, before, after)
        return Zset(events.rows, (after - before)[:, 0])

    def back(took: Zset) -> None:
        now = counts.counts_of(took)
        counts.put(took, now, now - took.weights[:, None])

    return Store(
        part, change, back, lambda: (Zset(rows, of[:, 0]) for rows, of in counts.scan()), lambda: None,
        lambda: part.mark_words(counts.table, COLUMNS), texts=(1,),
    )  # fmt: skip


def _ordered(orders: int) -> Callable[[Part], Store]:
    def made(part: Part) -> Store:
        part.open(1)
        record, _ = part.record(int(table_at(0)) + 2, orders)
        types = [column.type for column in COLUMNS]
        by = [order_words(COLUMNS, (Order(COLUMNS[i].name),)) for i in (1, 2)[:orders]]
        rows = OrderedRows([(record + i, Trees(part, types, spec)) for i, spec in enumerate(by)])
        return Store(
            part, lambda events: Zset(events.rows, rows.change(events)), lambda took: rows.change(took.negated()),
            rows.scan, rows.check_invariants, rows.mark_values, texts=(1,),
        )  # fmt: skip

    return made


def _upserts(**options: str) -> Callable[[Part], Store]:
    """Rows by key: a row that comes replaces the one that has its key, unless that has a greater sequence."""
    columns = {column.name: column.type for column in COLUMNS}
    table = Schema.of({"t": {"columns": columns, "key": ["a"], "upserts": True, **options}})["t"]

    def made(part: Part) -> Store:
        part.open(3)
        upserts = Upserts(table, COLUMNS)
        gone = None if upserts.retention is None else Tombstones(part, int(table_at(2)), 1, upserts.retention)
        keyed = UpsertTable(part, 0, 1, upserts, gone)

        def change(events: Zset) -> Zset:
            keyed.begin()
            rows = np.column_stack([events.rows, events.rows[:, 2]]) if options else events.rows
            try:
                return keyed.apply(upserts.last(Zset(rows, events.weights)))[0]
            except BaseException:
                keyed.discard_undo()
                raise

        return Store(
            part, change, lambda took: keyed.roll_back(), keyed.scan, keyed.check_invariants, keyed.mark_values,
            texts=(1,), told=lambda: (keyed.late, keyed.tombstones),
        )  # fmt: skip

    return made


def _window(window: Any) -> Callable[[Part], Store]:
    def made(part: Part) -> Store:
        part.open(1)
        kept = WindowedTable(part, int(table_at(0)), COLUMNS, window)
        return Store(
            part, lambda events: kept.apply(events, None, False), lambda took: kept.roll_back(), kept.scan,
            kept.check_invariants, kept.mark_values, texts=(1,), told=kept.stats,
        )  # fmt: skip

    return made


def _keys(part: Part) -> Store:
    """The keys of rows of which each has one at most: what would break that is left out of the batch here."""
    part.open(1)
    keys = KeyCounts(part, 0, [0, 1])

    def change(events: Zset) -> Zset:
        refused = keys.violations(events)
        bad = np.empty((0, 2), np.int64) if refused is None else refused[0]
        fine = events[np.array([not (bad == row[:2]).all(axis=1).any() for row in events.rows], bool)]
        keys.apply(fine)
        return fine.net([0, 1])

    def scan() -> Iterator[Zset]:
        return (Zset(rows, copies[:, 0]) for rows, copies in keys._copies.scan())

    return Store(
        part, change, lambda took: keys.roll_back(took), scan, lambda: keys.check_invariants(None),
        lambda: keys.mark_values(COLUMNS), texts=(1,),
    )  # fmt: skip


def _tombstones(part: Part) -> Store:
    part.open(1)
    gone = Tombstones(part, int(table_at(0)), 2, 10)

    def change(events: Zset) -> Zset:
        there = {tuple(row) for row in gone.all().tolist()}
        known = np.array([tuple(row) in there for row in events.rows.tolist()], bool)
        fine = events[known == (events.weights < 0)]
        once = Zset(fine.rows, np.sign(fine.weights))
        gone.change(once.rows, once.weights)
        return once

    return Store(
        part, change, lambda took: gone.change(took.rows, -took.weights),
        lambda: iter([Zset(rows := gone.all(), np.ones(len(rows), np.int64))]), lambda: None, lambda: None,
    )  # fmt: skip


STORES: dict[str, Callable[[Part], Store]] = {
    "counted tuples": _counted_tuples,
    "counts that are set": _set_counts,
    "rows in one order": _ordered(1),
    "rows in two orders": _ordered(2),
    "rows by key": _upserts(),
    "the latest rows by key": _upserts(sequence="b"),
    "the latest rows by key, what is deleted forgotten": _upserts(sequence="b", tombstones="2"),
    "the last rows": _window(last_rows(40)),
    "the rows of a time": _window(ttl("a", 30)),
    "enforced keys": _keys,
    "tombstones": _tombstones,
}


@every(STORES)
def test_every_store_obeys_the_law(name: str) -> None:
    refused = 0
    for seed in range(3):
        random = Random(seed)
        (part,) = parts(1, budget=1 << 20)
        store = STORES[name](part)
        for turn in range(7):
            known = encode(pa.array([f"value {i}" for i in range(6)]), "string", part.dictionary.intern).tolist()
            rows: dict[tuple[int, ...], int] = {}
            for _ in range(random.choice([0, 1, 5, 60])):
                row = (10 * turn + random.randrange(12), random.choice(known), turn + random.randrange(3))
                rows[row] = random.choice([1, 1, 2, -1])
            for row in random.sample(sorted(store.rows()), len(store.rows()) // 2):
                rows[(*row, random.randrange(3))[:3]] = -1
            events = Zset(np.array([*rows], np.int64).reshape(-1, 3), np.array([*rows.values()], np.int64))
            store.batch(events)
            refused += store.refused
    assert refused > 3, "some batches had too little memory"
