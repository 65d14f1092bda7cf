"""Batches that are one native call: each beside an engine that takes them step by step, and beside DuckDB.

Every reason for which the call comes back early has a query, and random batches that lead there.
"""

from __future__ import annotations

import warnings
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.errors import (
    AmplifiedWarning,
    BadRowError,
    ChangeError,
    ConcurrentChangeError,
    MemoryBudgetError,
    MissingDeleteError,
)
from crown.kernels.memory import arena as A
from crown.programs.delta_options import ALL_DELTAS
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines import pipeline
from crown.stages.kernels.groups import batch as group_batch
from tests.marks import by_turns, seeds
from tests.oracles.database import Database, to_arrow
from tests.programs.stepwise import Stepwise, bag

TABLE = {"r": {"k": "int64", "b": "int32", "v": "int64", "d": "decimal(12,2)", "w": "decimal(18,2)", "f": "float64"}}
QUERIES = {
    "nothing to help with": "SELECT k, SUM(v) AS s, COUNT(*) AS n, COUNT(v) AS c FROM r GROUP BY k",
    "averages": "SELECT b, k, AVG(v) AS a, SUM(d) AS s FROM r GROUP BY b, k",
    "conditions": "SELECT k, SUM(v) AS s FROM r WHERE b > 1 AND d < 50 AND NOT v IS NULL GROUP BY k",
    "one group": "SELECT COUNT(*) AS n, SUM(v) AS s FROM r",
    "one group of some rows": "SELECT COUNT(v) AS n, SUM(d) AS a FROM r WHERE k > 3",
    "values in order": "SELECT k, MIN(v) AS low, MAX(b) AS high, SUM(v) AS s FROM r GROUP BY k",
    "ends of all rows": "SELECT MIN(d) AS low, MAX(f) AS high, MAX(w) AS wide, MIN(v + b) AS sum FROM r",
    "ends in expressions": "SELECT k, MAX(v) - MIN(b) AS x FROM r GROUP BY k HAVING MIN(b) < 2 OR MAX(d) > 90",
    "ends of some rows": "SELECT k, MIN(d) FILTER (WHERE b > 1) AS low, MAX(v) AS high FROM r GROUP BY k",
    "distinct values": "SELECT k, COUNT(DISTINCT v) AS n FROM r GROUP BY k",
    "distinct sums": "SELECT b, SUM(DISTINCT d) AS s, COUNT(DISTINCT k) AS n, MIN(k) AS l FROM r GROUP BY b",
    "distinct doubles": "SELECT k, SUM(DISTINCT f) AS s FROM r GROUP BY k",
    "values in trees": "SELECT k, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY d) AS m, MIN(d) AS low FROM r GROUP BY k",
    "HAVING": "SELECT k, SUM(v) AS s FROM r GROUP BY k HAVING COUNT(*) > 2 AND SUM(v) < 500",
    "computed columns": "SELECT k, SUM(v) * 2 + COUNT(*) AS x FROM r GROUP BY k",
    "variance": "SELECT k, VAR_POP(v) AS x FROM r GROUP BY k",
    "rows that are not told apart": "SELECT COUNT(*) AS n, SUM(v) AS s FROM r GROUP BY k",
    "decimals of two words": "SELECT k, SUM(w) AS s FROM r GROUP BY k",
    "doubles": "SELECT k, SUM(f) AS s, AVG(f) AS a FROM r GROUP BY k",
}
NEVER_DONE = {
    "values in trees",
    "variance",
}

ABSENT = (90, 90, -90, Decimal(-90), Decimal(-90), -90.0)
"""A row of which no column is that of another row."""


def values(random: Random) -> tuple[Any, ...]:
    """Returns a row, some of whose values are NULL, and some far from the others."""
    far = random.random() < 0.1
    row = (
        random.randrange(8),
        random.randrange(4),
        random.randrange(-(2**60), 2**60) if far else random.randrange(100),
        Decimal(random.randrange(10_000)).scaleb(-2),
        Decimal(random.randrange(10**17, 10**18) if far else random.randrange(10_000)).scaleb(-2),
        random.choice((1e300, -1e-300, float("inf"))) if far else random.randrange(64) / 4,
    )
    return tuple(None if random.random() < 0.1 else value for value in row)


@pytest.mark.parametrize(("kind", "on_missing"), by_turns(QUERIES, ("ignore", "trust", "raise")))
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_batches_are_those_of_an_engine_that_takes_them_step_by_step(seed: int, kind: str, on_missing: str) -> None:
    if "WHERE" in QUERIES[kind] and on_missing == "raise":
        pytest.skip("the base table knows all rows, the groups some")
    random = Random(f"{seed} {kind} {on_missing}")
    both = Stepwise(QUERIES[kind], TABLE, on_missing=on_missing)
    for number in range(12):
        there = list(both.database.rows["r"].elements())
        gone = [(row, -1) for row in random.sample(there, random.randrange(len(there) // 2 + 1))]
        come = [(values(random), random.choice((1, 1, 1, 2, 0))) for _ in range(random.choice((0, 1, 3, 40)))]
        if on_missing == "ignore":
            gone += [(ABSENT, -1)] * random.randrange(2)
        changes = gone + come
        random.shuffle(changes)
        if changes:
            if number % 3 == 1:
                both.aborted({"r": changes}, read=number % 2)
            both.apply(changes, deltas=number % 4 != 3)
    if kind not in ("doubles", "distinct doubles", "values in trees"):  # which DuckDB adds or types in another way
        both.is_duckdbs()
    assert both.results[group_batch.DONE] or kind in {*NEVER_DONE, "doubles", "distinct doubles"}
    assert any(asked != group_batch.DONE for asked in both.results) or kind not in NEVER_DONE
    everything = both.database.everything(-1)["r"]
    if everything:
        both.apply(everything)


def plain(n: int = 6) -> list[tuple[tuple[Any, ...], int]]:
    """Returns inserts of rows in two groups."""
    return [((i % 2, i, 10 * i, Decimal(i), Decimal(i), 0.5), 1) for i in range(n)]


def test_a_delete_that_finds_no_row_is_refused_or_cut() -> None:
    for on_missing in ("raise", "ignore"):
        both = Stepwise(QUERIES["nothing to help with"], TABLE, on_missing=on_missing)
        both.apply(plain())
        absent = [(plain()[0][0], -3), (plain()[1][0], 1)]
        if on_missing == "raise":
            said = both.refused(to_arrow(both.database.schema, "r", absent), MissingDeleteError)
            assert "deletes 3 copies" in said
        else:
            both.apply(absent)
        assert both.results[kernels.STOPPED_AT_GATE] == 1
        both.apply(plain())


@pytest.mark.parametrize(
    ("column", "value"), [("_weight", None), ("_weight", 2**31), ("v", -(2**63))], ids=["none", "large", "least"]
)
def test_a_bad_row_is_named(column: str, value: Any) -> None:
    both = Stepwise(QUERIES["nothing to help with"], TABLE)
    both.apply(plain())
    batch = to_arrow(both.database.schema, "r", plain())
    at = batch.schema.get_field_index(column)
    wrong = pa.array([*batch[column].to_pylist()[:-1], value], pa.int64())
    epoch = both.view._engine.header[A.H_EPOCH]
    said = both.refused(batch.set_column(at, column, wrong), BadRowError)
    assert "row 5" in said
    assert both.view._engine.header[A.H_EPOCH] == epoch, "a batch that is not begun changes nothing that is being read"
    assert both.results[kernels.NOT_SCANNED] == 1
    for view in (both.view, both.other):  # what the last batch did not find is known: it can be undone
        view._engine.undo({"r": to_arrow(both.database.schema, "r", plain())})
        assert not view.to_table().num_rows


def test_a_sum_that_leaves_its_type_refuses_the_batch() -> None:
    both = Stepwise(QUERIES["nothing to help with"], TABLE)
    both.apply(plain())
    large = [((1, 0, 2**62, None, None, None), 2)]
    said = both.refused(to_arrow(both.database.schema, "r", [*plain(), *large]), ChangeError)
    assert "the sum is no int64" in said
    both.apply(plain())


def test_a_group_with_fewer_than_no_rows_refuses_the_batch() -> None:
    both = Stepwise(QUERIES["nothing to help with"], TABLE, on_missing="trust")
    both.apply(plain())
    said = both.refused(to_arrow(both.database.schema, "r", [((1, 0, 7, None, None, None), -9)]), ChangeError)
    assert "would have -6 rows" in said
    both.apply(plain())


def test_a_delete_of_an_absent_value_refuses_the_batch() -> None:
    """The values that the batch has changed before are as they were."""
    both = Stepwise("SELECT k, MIN(v) AS low, COUNT(DISTINCT b) AS n FROM r GROUP BY k", TABLE, on_missing="trust")
    both.apply(plain())
    absent = [((1, 7, 70, None, None, None), 1), ((1, 9, 99, None, None, None), -1)]
    for changes in (absent, absent[::-1], [*plain(), *absent]):
        said = both.refused(to_arrow(both.database.schema, "r", changes), ChangeError)
        assert "that its group does not have" in said
        both.apply(plain())


def test_a_sum_that_leaves_its_type_takes_values_back() -> None:
    both = Stepwise(QUERIES["values in order"], TABLE)
    both.apply(plain())
    large = [((1, 0, 2**62, None, None, None), 2)]
    for _ in range(3):
        said = both.refused(to_arrow(both.database.schema, "r", [*plain(), *large]), ChangeError)
        assert "the sum is no int64" in said
        both.apply(plain())


def test_more_deltas_than_a_record_batch_takes() -> None:
    both = Stepwise("SELECT v, COUNT(*) AS n FROM r GROUP BY v", TABLE, on_missing="trust")
    for n in (1_000, kernels.MAX_MESSAGE_ROWS + 10, kernels.MAX_MESSAGE_ROWS + 10):
        batch = {"r": pa.table({"v": range(n)}).append_column("b", pa.nulls(n, pa.int32()))}
        found, other = (view.apply(batch) for view in (both.view, both.other))
        assert found.sort_by([("v", "ascending"), ("_weight", "ascending")]).equals(
            other.sort_by([("v", "ascending"), ("_weight", "ascending")])
        )
    assert both.results == {kernels.MESSAGE_TOO_LARGE: 1, group_batch.NEEDS_ROOM: 1, kernels.NO_MESSAGE: 1}
    both.compare()


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
def test_a_budget_stops_the_gate_or_the_groups(on_missing: str) -> None:
    query = "SELECT v, COUNT(*) AS n FROM r GROUP BY v"
    both = Stepwise(query, TABLE, on_missing=on_missing, memory_budget=400_000)
    batch = pa.table({"v": range(40_000)})
    before = bag(both.view.to_table())
    with pytest.raises(MemoryBudgetError):
        both.view.apply({"r": batch})
    assert bag(both.view.to_table()) == before
    both.view.check_invariants()
    assert sum(both.results.values()) == 1
    assert not both.results[group_batch.DONE]
    assert both.view.apply({"r": batch[:10]}).num_rows == 10


def test_a_state_in_a_file_grows(tmp_path: Any) -> None:
    query = "SELECT v, COUNT(*) AS n FROM r GROUP BY v"
    kept, other = crown.view(query, TABLE, path=tmp_path / "state"), crown.view(query, TABLE)
    for first in range(0, 60_000, 20_000):
        batch = {"r": pa.table({"v": range(first, first + 20_000)})}
        assert bag(kept.apply(batch)) == bag(other.apply(batch))
    kept.check_invariants()
    assert bag(kept.to_table()) == bag(other.to_table())


@pytest.mark.parametrize("kind", ["nothing to help with", "HAVING", "one group"])
def test_what_is_raised_when_all_is_done_takes_the_batch_back(kind: str) -> None:
    both = Stepwise(QUERIES[kind], TABLE)
    for view in (both.view, both.other):
        view.amplified_beyond = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmplifiedWarning)
        both.apply(plain())
    before, tables = both.view.stats(), bag(both.view.to_table())
    for view in (both.view, both.other):
        with pytest.raises(AmplifiedWarning):  # a warning is an error in tests
            view.apply({"r": to_arrow(both.database.schema, "r", plain(4))})
    both.compare()
    assert bag(both.view.to_table()) == tables
    assert {**both.view.stats(), "reserved_bytes": 0, "live_bytes": 0} == {
        **before,
        "reserved_bytes": 0,
        "live_bytes": 0,
    }


@pytest.mark.parametrize("place", [1, 2], ids=["before the call", "for a large message"])
def test_without_memory_the_view_stays_as_it_was(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    view = crown.view("SELECT v, COUNT(*) AS n FROM r GROUP BY v", TABLE)
    view.apply({"r": pa.table({"v": [1, 2]})})
    room, calls = pipeline._message, 0

    def scarce(words: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == place:
            raise MemoryError
        return room(words)

    monkeypatch.setattr(pipeline, "_message", scarce)
    before = bag(view.to_table()), view.stats()["updates"]
    with pytest.raises(MemoryError):
        view.apply({"r": pa.table({"v": range(1_000)})})
    assert (bag(view.to_table()), view.stats()["updates"]) == before
    view.check_invariants()
    assert view.apply({"r": pa.table({"v": range(1_000)})}).num_rows == 1_002


def test_nothing_else_is_applied_meanwhile() -> None:
    view = Stepwise(QUERIES["nothing to help with"], TABLE).view
    engine, batch = view._engine, {"r": to_arrow(Database(TABLE).schema, "r", plain())}
    asked = 0

    def before_commit(found: list[Any]) -> None:
        nonlocal asked
        for work in (lambda: view.apply(batch), view.to_table, view.compact):
            with pytest.raises(ConcurrentChangeError):
                work()
            asked += 1

    engine.apply(engine.prepare_for_apply(batch, True, ALL_DELTAS), before_commit=before_commit)
    assert asked == 3
    view.apply(batch)


def test_a_durable_view_writes_down_what_it_took(tmp_path: Any) -> None:
    with crown.open(QUERIES["conditions"], tmp_path / "view", TABLE) as view:
        assert view._engine.pipeline is not None
        view.apply({"r": to_arrow(Database(TABLE).schema, "r", plain())})
        held = bag(view.to_table())
    with crown.open(None, tmp_path / "view") as view:
        assert bag(view.to_table()) == held


def test_batches_of_schemas_that_take_turns_are_prepared_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    written, write = list[pipeline.Pipeline](), pipeline.Pipeline._write_plan

    def noted(self: pipeline.Pipeline) -> Any:
        written.append(self)
        return write(self)

    monkeypatch.setattr(pipeline.Pipeline, "_write_plan", noted)
    view = crown.view("SELECT a, SUM(b) AS s FROM t WHERE b > 1 GROUP BY a", {"t": {"a": "int64", "b": "int64"}})
    rows = [pa.table({"a": [i % 3], "b": [i]}) for i in range(12)]
    for table in rows:
        view.apply({"t": table})
        view.apply({"t": table.append_column("_weight", pa.array([-1]))})
        view.apply({"t": table.select(["b", "a"])})
    assert len(written) == 3, "one plan for each order of columns, with and without weights"
    assert {(row["a"], row["s"]) for row in view} == {(0, 18), (1, 21), (2, 26)}
    for n in range(2, 14):
        view.apply({"t": rows[5].append_column(f"more{n}", pa.array([n]))})
    assert {(row["a"], row["s"]) for row in view} == {(0, 18), (1, 21), (2, 86)}
