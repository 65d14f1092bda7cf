"""``insert``, ``delete``, ``upsert``, ``subscribe``, ``changes`` and ``close`` of views and databases, kept or not."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crown

SCHEMA = {
    "r": {"a": "int64", "s": "string"},
    "u": {"columns": {"k": "int64", "x": "int64"}, "key": ["k"], "upserts": True},
}
QUERY = "SELECT a, s FROM r WHERE a > 1"


def view(folder: Path) -> crown.View:
    return crown.view(QUERY, {"r": SCHEMA["r"]})


def durable(folder: Path) -> crown.DurableView:
    return crown.open(QUERY, folder / "view", {"r": SCHEMA["r"]})


def database(folder: Path) -> crown.Database:
    made = crown.database(SCHEMA)
    made.view("large", QUERY)
    made.view("keyed", "SELECT k, x FROM u")
    return made


def durable_database(folder: Path) -> crown.DurableDatabase:
    made = crown.open_database(folder / "database", SCHEMA)
    made.view("large", QUERY)
    made.view("keyed", "SELECT k, x FROM u")
    return made


ALL = pytest.mark.parametrize("make", [view, durable, database, durable_database])
DATABASES = pytest.mark.parametrize("make", [database, durable_database])


def large(owner: Any) -> Any:
    """The view of the query: of a database one of its views."""
    return owner if isinstance(owner, crown.View) else owner["large"]


def rows(deltas: Any) -> list[dict[str, Any]]:
    return (deltas["large"] if isinstance(deltas, dict) else deltas).to_pylist()


@ALL
def test_inserted_rows_enter_and_deleted_rows_leave_the_result(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with make(tmp_path) as owner:
        assert rows(owner.insert("r", [(1, "one"), (2, "two")])) == [{"a": 2, "s": "two", "_weight": 1}]
        assert rows(owner.insert("R", pa.table({"s": ["three"], "a": [3]}))) == [{"a": 3, "s": "three", "_weight": 1}]
        assert rows(owner.delete("r", [{"a": 2, "s": "two"}])) == [{"a": 2, "s": "two", "_weight": -1}]
        assert list(large(owner)) == [{"a": 3, "s": "three"}]
        assert (large(owner).columns, large(owner).query) == (("a", "s"), QUERY)


@pytest.mark.parametrize(
    "form",
    [
        lambda: [(5, "five"), (6, "six")],
        lambda: ({"a": a, "s": s} for a, s in ((5, "five"), (6, "six"))),
        lambda: {"a": [5, 6], "s": ["five", "six"]},
        lambda: pa.table({"a": [5, 6], "s": ["five", "six"]}),
        lambda: pd.DataFrame({"a": [5, 6], "s": ["five", "six"]}),
        lambda: pl.DataFrame({"a": [5, 6], "s": ["five", "six"]}).lazy(),
    ],
)
def test_whatever_apply_takes_can_be_inserted_and_deleted(form: Callable[[], Any]) -> None:
    made = crown.view(QUERY, SCHEMA)
    assert made.insert("r", form()).num_rows == 2
    assert made.delete("r", form()).num_rows == 2
    assert made.count() == 0
    assert made.insert("u", [(1, 2)]).num_rows == 0, "the schema has it, and the query does not read it"


@DATABASES
def test_an_upsert_replaces_the_row_of_its_key(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with make(tmp_path) as db:
        db.upsert("u", [(1, 10), (2, 20)])
        assert [(row["x"], row["_weight"]) for row in db.upsert("u", [(1, 11)])["keyed"].to_pylist()] == [
            (10, -1),
            (11, 1),
        ]
        db.delete("u", [{"k": 2}])
        assert list(db["keyed"]) == [{"k": 1, "x": 11}]
        with pytest.raises(crown.ChangeError, match=r"'r' has no upserts.*declare its key and upserts"):
            db.upsert("r", [(1, "one")])


@pytest.mark.parametrize("way", ["insert", "delete"])
def test_rows_that_say_themselves_what_happens_to_them_are_refused(way: str) -> None:
    made = crown.view(QUERY, SCHEMA)
    for given in ([(1, "one", -1)], [{"a": 1, "s": "x", "_weight": 1}], [{"a": 1, "s": "x", "_change_type": "delete"}]):
        with pytest.raises(crown.ChangeError, match="leave the column out, or use apply"):
            getattr(made, way)("r", given)
    with pytest.raises(crown.ChangeError, match="'z' is not part of this query"):
        getattr(made, way)("z", [(1,)])
    with pytest.raises(crown.ChangeError, match="the name of a relation is a text"):
        getattr(made, way)(["r"], [(1,)])


@DATABASES
def test_a_database_and_its_views_tell_their_subscribers(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with make(tmp_path) as db:
        told: list[Any] = []
        of_all = db.subscribe(lambda deltas: told.append(sorted(n for n, delta in deltas.items() if delta.num_rows)))
        db["LARGE"].subscribe(lambda delta: told.append(delta.to_pylist()))
        db.update({"r": [(2, "two")]})
        db.insert("r", [(0, "nothing")])
        db.insert("u", [(1, 1)])
        assert told == [["large"], [{"a": 2, "s": "two", "_weight": 1}], ["keyed"]]
        of_all()
        db.drop("large")
        db.view("large", "SELECT a, s FROM r")
        db.insert("r", [(9, "nine")])
        assert len(told) == 3, "the subscription ended with the view that it was of"


@DATABASES
def test_a_subscriber_that_fails_or_applies_changes_leaves_the_batch_applied(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    with make(tmp_path) as db:
        db.subscribe(lambda deltas: db.insert("r", [(7, "seven")]))
        with pytest.raises(crown.ConcurrentChangeError, match="when apply has returned"):
            db.insert("r", [(2, "two")])
        db["large"].subscribe(lambda deltas: db.view("more", QUERY))
        with pytest.raises(crown.ConcurrentChangeError):
            db.insert("r", [(3, "three")])
        assert db["large"].count() == 2
        assert "more" not in db


def test_the_note_of_a_batch_stands_though_a_subscriber_fails(tmp_path: Path) -> None:
    with durable_database(tmp_path) as db:
        db.subscribe(lambda deltas: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            db.apply({"r": [(2, "two")]}, note="line 5")
        assert (db.note, db["large"].count()) == ("line 5", 1)
    with crown.open_database(tmp_path / "database") as again:
        assert (again.note, again["large"].count()) == ("line 5", 1)


@ALL
def test_a_closed_view_can_be_read_and_refuses_changes(make: Callable[[Path], Any], tmp_path: Path) -> None:
    told: list[Any] = []
    with make(tmp_path) as owner:
        owner.subscribe(told.append)
        owner.insert("r", [(2, "two")])
    owner.close()
    assert len(told) == 1
    assert large(owner).count() == 1
    with pytest.raises(crown.CrownError, match="closed"):
        owner.insert("r", [(3, "three")])
    with pytest.raises(crown.CrownError, match="closed"):
        owner.update({"r": [(3, "three")]})
    assert large(owner).count() == 1


@ALL
def test_deltas_are_iterated_asynchronously_from_the_call_on(make: Callable[[Path], Any], tmp_path: Path) -> None:
    async def follow() -> list[Any]:
        with make(tmp_path) as owner:
            owner.insert("r", [(2, "before")])
            deltas = large(owner).changes()
            owner.insert("r", [(3, "three")])
            owner.insert("r", [(0, "changes nothing")])

            async def write() -> None:
                await asyncio.sleep(0)
                owner.delete("r", [(3, "three")])
                owner.close()

            writer = asyncio.create_task(write())
            found = [(delta["a"].to_pylist(), delta["_weight"].to_pylist()) async for delta in deltas]
            await writer
            return found

    assert asyncio.run(follow()) == [([3], [1]), ([3], [-1])]


@ALL
def test_a_full_queue_refuses_the_batch_and_nothing_is_lost(make: Callable[[Path], Any], tmp_path: Path) -> None:
    async def follow() -> list[int]:
        with make(tmp_path) as owner:
            found = []
            async with large(owner).changes(limit=2) as deltas:
                for number in range(2, 7):
                    if number > 3:
                        with pytest.raises(crown.SlowReaderError, match="has 2 deltas waiting, so the batch was not"):
                            owner.insert("r", [(number, "x")])
                        assert large(owner).count() == number - 2
                        found += (await anext(deltas))["a"].to_pylist()
                    owner.insert("r", [(number, "x")])
                while len(found) < 5:
                    found += (await anext(deltas))["a"].to_pylist()
            owner.insert("r", [(9, "there is no reader")])
            owner.insert("r", [(10, "there is no reader")])
            owner.insert("r", [(11, "there is no reader")])
            return found

    assert asyncio.run(follow()) == [2, 3, 4, 5, 6]


def test_a_reader_that_may_lose_deltas_is_ended_and_told_so() -> None:
    async def follow() -> None:
        made = crown.view(QUERY, SCHEMA)
        deltas = made.changes(2, full="end")
        for number in range(2, 7):
            made.insert("r", [(number, "x")])
        assert made.count() == 5
        assert [(await anext(deltas))["a"].to_pylist() for _ in range(2)] == [[2], [3]]
        with pytest.raises(crown.SlowReaderError, match="more than 2 deltas behind and missed the next ones"):
            await anext(deltas)
        with pytest.raises(StopAsyncIteration):
            await anext(deltas)

    asyncio.run(follow())


def test_an_iterator_that_is_dropped_holds_nothing_up() -> None:
    made = crown.view(QUERY, SCHEMA)
    made.changes(1)
    gc.collect()
    for number in range(2, 7):
        made.insert("r", [(number, "x")])
    assert made.count() == 5
    assert sum(1 for _ in made.apply_batches({"r": [(9, "nine")]})) == 1, "there are no followers"


def test_batches_of_another_thread_reach_a_reader_that_waits() -> None:
    made = crown.view(QUERY, SCHEMA)

    async def follow() -> int:
        seen = 0
        async with made.changes(1000) as deltas:
            writer = threading.Thread(target=lambda: [made.insert("r", [(n, "x")]) for n in range(2, 202)])
            writer.start()
            async with asyncio.timeout(60):
                while seen < 200:
                    seen += (await anext(deltas)).num_rows
            writer.join()
        return seen

    assert asyncio.run(follow()) == 200


def test_wrong_arguments_of_changes_are_refused() -> None:
    made = crown.view(QUERY, SCHEMA)
    with pytest.raises(crown.CrownError, match='full must be "refuse" or "end"'):
        made.changes(full="drop")  # type: ignore[arg-type]
    with pytest.raises(crown.CrownError, match="limit"):
        made.changes(0)
    db = database(Path())
    gone = db["large"]
    db.drop("large")
    with pytest.raises(crown.CrownError, match="has been dropped"):
        gone.changes()
