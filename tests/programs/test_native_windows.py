"""Batches of window functions that are one native call: each beside an engine that takes them step by step, and beside
DuckDB."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import ChangeError
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines import overs
from crown.stages.kernels.groups import batch as group_batch
from tests.marks import by_turns, seeds, turns
from tests.programs.stepwise import WORK, Changes, Stepwise, refusals
from tests.programs.test_native_joins import little_room

TABLES = {
    "t": {"id": "int64", "k": "int64", "ts": "int64", "v": "int64", "name": "string", "price": "decimal(12,2)"},
    "d": {"k": "int64", "label": "string"},
}
BY = "PARTITION BY k ORDER BY ts NULLS LAST, id NULLS LAST, v NULLS LAST, name NULLS LAST, price NULLS LAST"
SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
PEERS = "PARTITION BY k ORDER BY ts NULLS LAST"
ALL = "id, k, ts, v, name, price"
PICKED = {
    "the row before": f"SELECT {ALL}, LAG(v) OVER ({BY}) AS a FROM t",
    "a difference": f"SELECT id, k, v - LAG(v) OVER ({BY}) AS a FROM t",
    "rows on both sides": f"SELECT {ALL}, LAG(v, 2, id) OVER ({BY}) AS a, LEAD(name, 3) OVER ({BY}) AS b FROM t",
    "texts": f"SELECT {ALL}, LAG(name, 1, name) OVER ({BY}) AS a FROM t",
    "wide decimals": f"SELECT {ALL}, LEAD(w) OVER ({BY}) AS a FROM (SELECT *, price * price * 3 AS w FROM t) q",
    "the last value so far": f"SELECT {ALL}, LAST_VALUE(v IGNORE NULLS) OVER ({BY} {SO_FAR}) AS a FROM t",
    "the next value": (
        f"SELECT {ALL}, FIRST_VALUE(v IGNORE NULLS) OVER ({BY} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS a, "
        f"NTH_VALUE(name, 2) OVER ({BY} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b FROM t"
    ),
    "hidden columns": f"SELECT k, LEAD(ts) OVER ({BY}) AS a FROM t WHERE v > 2",
    "the whole table": (f"SELECT id, LAG(v) OVER ({BY.removeprefix('PARTITION BY k ')}, k NULLS LAST) AS a FROM t"),
    "the order of texts": (
        "SELECT id, name, LAG(id) OVER (PARTITION BY name ORDER BY price DESC NULLS LAST, id NULLS LAST) AS a "
        "FROM (SELECT DISTINCT id, name, price FROM t) q"
    ),
    "rows of a join": (
        "SELECT id, label, LAG(id) OVER (PARTITION BY label ORDER BY id NULLS LAST) AS a "
        "FROM (SELECT DISTINCT id, label FROM t, d WHERE t.k = d.k) q"
    ),
    "groups of changes": (
        f"SELECT k, SUM(a) AS s, COUNT(*) AS n FROM (SELECT k, v - LAG(v) OVER ({BY}) AS a FROM t) q GROUP BY k"
    ),
}
RUN = {
    "running sums": f"SELECT {ALL}, SUM(v) OVER ({BY} {SO_FAR}) AS a FROM t",
    "sums up to the last peer": f"SELECT {ALL}, SUM(v) OVER ({PEERS}) AS a, COUNT(v) OVER ({PEERS}) AS b FROM t",
    "row numbers": f"SELECT {ALL}, ROW_NUMBER() OVER ({BY}) AS a FROM t",
    "ranks": f"SELECT {ALL}, RANK() OVER ({PEERS}) AS a FROM t",
    "ranks in the order of texts": "SELECT id, name, RANK() OVER (PARTITION BY k ORDER BY name NULLS LAST) AS a FROM t",
    "ranks without gaps": (f"SELECT {ALL}, DENSE_RANK() OVER ({PEERS}) AS a, ROW_NUMBER() OVER ({BY}) AS b FROM t"),
    "ranks of texts without gaps": "SELECT k, DENSE_RANK() OVER (ORDER BY name NULLS LAST, k NULLS LAST) AS a FROM t",
    "sums of decimals": (f"SELECT {ALL}, SUM(price) OVER ({PEERS}) AS a, SUM(price) OVER ({BY} {SO_FAR}) AS b FROM t"),
    "several kinds": (
        f"SELECT {ALL}, RANK() OVER ({PEERS}) AS a, COUNT(*) OVER ({PEERS}) AS b, "
        f"SUM(v) FILTER (WHERE id > 3) OVER ({PEERS}) AS c FROM t"
    ),
    "sums of hidden columns": f"SELECT k, SUM(v) OVER ({PEERS}) AS a FROM t WHERE id <> 2",
    "numbers of hidden columns": f"SELECT k, ROW_NUMBER() OVER ({BY}) AS a FROM t",
    "sums over the table": "SELECT id, ts, SUM(v) OVER (ORDER BY ts NULLS LAST) AS a FROM t",
    "sums of groups": (
        "SELECT k, n, SUM(n) OVER (ORDER BY k NULLS LAST) AS a FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) g"
    ),
    "groups of ranks": f"SELECT a, COUNT(*) AS n FROM (SELECT RANK() OVER ({PEERS}) AS a FROM t) q GROUP BY a",
}
FRAMED = {
    "sums of frames": (
        f"SELECT {ALL}, SUM(v) OVER ({BY} ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS a, COUNT(v) OVER ({BY} ROWS "
        f"BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS b FROM t"
    ),
    "averages of frames": (
        f"SELECT k, AVG(v) OVER ({BY} ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS a, AVG(id) OVER ({BY} ROWS "
        f"BETWEEN 1 FOLLOWING AND 4 FOLLOWING) AS b FROM t"
    ),
    "extrema of frames": (
        f"SELECT {ALL}, MIN(v) OVER ({BY} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS a, MAX(price) FILTER (WHERE "
        f"id > 3) OVER ({BY} ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS b FROM t"
    ),
    "running averages": f"SELECT {ALL}, AVG(v) OVER ({PEERS}) AS a, AVG(v) OVER ({BY} {SO_FAR}) AS b FROM t",
    "sums of wide decimals": (
        f"SELECT id, SUM(w) OVER ({PEERS}) AS a, SUM(w) OVER ({BY} ROWS 2 PRECEDING) AS b "
        f"FROM (SELECT *, price * price * 3 AS w FROM t) q"
    ),
    "sums of doubles": (
        f"SELECT id, k, SUM(x) OVER ({BY} ROWS 3 PRECEDING) AS a, AVG(x) OVER ({BY} {SO_FAR}) AS b, MAX(x) OVER ({BY} "
        f"ROWS 2 PRECEDING) AS c FROM (SELECT *, CAST(v AS DOUBLE) / 4 AS x FROM t) q"
    ),
    "running extrema": (
        f"SELECT {ALL}, MIN(v) OVER ({PEERS}) AS a, MAX(price) FILTER (WHERE id > 3) OVER ({BY} {SO_FAR}) AS b FROM t"
    ),
    "ranges of values": (
        f"SELECT {ALL}, SUM(v) OVER ({PEERS} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, MIN(v) OVER (PARTITION "
        f"BY k ORDER BY ts NULLS LAST RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING) AS b FROM t"
    ),
    "ranges of falling values": (
        "SELECT id, ts, AVG(v) OVER (PARTITION BY k ORDER BY ts DESC NULLS FIRST RANGE BETWEEN 5 PRECEDING AND 1 "
        "PRECEDING) AS a, COUNT(*) OVER (PARTITION BY k ORDER BY ts DESC NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING "
        "AND 2 FOLLOWING) AS b FROM t"
    ),
    "the rest of a partition": (
        f"SELECT {ALL}, SUM(v) OVER ({BY} ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) AS a, COUNT(*) OVER "
        f"({PEERS} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b, MAX(v) OVER (PARTITION BY k) AS c FROM t"
    ),
    "a row and a sum": (
        f"SELECT {ALL}, LAG(v) OVER ({BY}) AS a, SUM(v) OVER ({BY}) AS b, RANK() OVER ({PEERS}) AS c FROM t"
    ),
    "kinds of numbers": (
        f"SELECT {ALL}, NTILE(3) OVER ({BY}) AS a, PERCENT_RANK() OVER ({PEERS}) AS b, CUME_DIST() OVER ({PEERS}) "
        f"AS c, DENSE_RANK() OVER ({PEERS}) AS d, ROW_NUMBER() OVER ({BY}) AS e, RANK() OVER ({PEERS}) AS f FROM t"
    ),
    "frames of the whole table": (
        f"SELECT id, ts, SUM(v) OVER ({BY.removeprefix('PARTITION BY k ')}, k NULLS LAST ROWS BETWEEN 9 PRECEDING AND "
        f"3 FOLLOWING) AS a FROM t"
    ),
    "groups of frames": (
        f"SELECT a, COUNT(*) AS n FROM (SELECT MAX(v) OVER ({BY} ROWS 2 PRECEDING) AS a FROM t) q GROUP BY a"
    ),
}
QUERIES = {**PICKED, **RUN, **FRAMED}


def beside(kind: str, **options: Any) -> Stepwise:
    """Returns two views of a query. Their work is not compared: a search takes more or fewer steps if the rows of a
    batch are in another order, or if a call takes back what it has changed."""
    tables = {name: of for name, of in TABLES.items() if f" {name}" in QUERIES[kind]}
    both = Stepwise(QUERIES[kind], tables, **options)
    both.apart |= WORK
    return both


def row_of(table: str, random: Random, far: int) -> tuple[object, ...]:
    """Returns a random row of a table. Some of its values are NULL."""
    names = ("a", "b", "", "a text of some length")
    if table == "d":
        return random.choice((None, 0, 1, 2, 3)), random.choice(names)
    row = (
        random.randrange(9), random.randrange(far), random.randrange(9), random.choice((1, 2, 3, -4, 2**40)),
        random.choice(names), Decimal(random.randrange(10**5)).scaleb(-2),
    )  # fmt: skip
    return tuple(None if random.random() < 0.06 else value for value in row)


def changes_of(both: Stepwise, table: str, random: Random, far: int) -> Changes:
    """Returns random changes of a table: some rows have several copies, and some deletes find no row."""
    there = sorted(both.database.rows[table].elements(), key=repr)
    gone = [(row, -1) for row in random.sample(there, min(random.choice((0, 1, 1, 9)), len(there)))]
    made = [(row_of(table, random, far), 1) for _ in range(random.choice((0, 1, 1, 3, 20)))]
    if there and random.random() < 0.3:
        made.append((random.choice(there), random.choice((1, 2))))
    return gone + made


@pytest.mark.parametrize(("kind", "on_missing"), by_turns(QUERIES, ("ignore", "trust", "raise")))
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_batches_are_those_of_an_engine_that_takes_them_step_by_step(seed: int, kind: str, on_missing: str) -> None:
    random = Random(f"{seed} {kind} {on_missing}")
    both, far = (
        beside(kind, on_missing=on_missing),
        random.choice((1, 3, 30)),
    )
    for number in turns(12, 40):
        batch = {table: changes_of(both, table, random, far) for table in both.database.schema}
        batch = {table: changes for table, changes in batch.items() if changes}
        if batch:
            if number % 4 == 1:
                with suppress(ChangeError):
                    both.aborted(batch, read=number % 2)
            both.apply(batch, deltas=number % 6 != 5, dicts=random.random() < 0.3)
            both.is_duckdbs()
    done = both.results[group_batch.DONE] + both.results[kernels.MESSAGE_TOO_LARGE]
    assert done > 3, both.results
    both.apply({table: changes for table, changes in both.database.everything(-1).items() if changes})
    assert not both.view.to_table().num_rows


@pytest.mark.parametrize(
    "kind", ["rows on both sides", "the last value so far", "several kinds", "row numbers", "sums of frames"]
)
def test_a_stage_goes_on_in_steps_where_a_call_has_no_room(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    little_room(monkeypatch)
    monkeypatch.setattr(overs, "_ROWS_PER_CHANGE", 1)
    random, both = Random(kind), beside(kind)
    for number in range(12):
        if number == 6:
            monkeypatch.setattr(overs, "_MAX_ROWS", 1)
        batch = {"t": [(row_of("t", random, 1), 1) for _ in range(5)] + changes_of(both, "t", random, 1)}
        if number % 4 == 3:
            both.aborted(batch, read=1)
        both.apply(batch)
        both.is_duckdbs()
    assert both.results[kernels.NOT_BEGUN] > 3, both.results


@pytest.mark.parametrize("kind", ["a difference", "the last value so far", "running sums", "ranks", "sums of frames"])
def test_a_batch_of_one_row_takes_the_steps_that_it_takes_without_a_call(kind: str) -> None:
    both, rows = Stepwise(QUERIES[kind], {"t": TABLES["t"]}), [(i, 0, i * 7 % 10, i, "a", None) for i in range(10)]
    for row in rows:
        both.apply([(row, 1)])
    for row in rows[::2]:
        both.apply([(row, -1)])
    assert both.results[kernels.NOT_BEGUN] < 2, both.results


def test_room_grows_with_the_rows_that_change() -> None:
    both = beside("running sums")
    both.apply([((i, 0, i, 1, "a", None), 1) for i in range(3_000)])
    for number in range(4):
        both.apply([((number, 0, -1, 1, "a", None), 1)])
    assert both.results[kernels.NOT_BEGUN] in (1, 2), both.results
    assert both.results[group_batch.DONE] + both.results[kernels.MESSAGE_TOO_LARGE] > 2, both.results


@pytest.mark.parametrize("kind", ["running sums", "sums up to the last peer", "sums of frames", "a row and a sum"])
def test_a_sum_that_leaves_its_type_refuses_the_batch(kind: str) -> None:
    both = beside(kind)
    both.apply([((1, 0, 1, 2**62, "a", None), 1), ((2, 0, 9, 5, "a", None), 1)])
    for ts in (0, 1, 5, 20):
        told = both.refused(both.given([((3, 0, ts, 2**62, "a", None), 1)]), ChangeError)
        assert "SUM(v)" in told
    assert both.results[kernels.NOT_BEGUN] == 4, both.results
    both.apply([((3, 0, 5, -(2**62), "a", None), 1)])
    both.is_duckdbs()


def test_a_sum_that_only_the_dictionary_can_store_takes_the_steps() -> None:
    query = "SELECT id, k, SUM(x) OVER w AS a, RANK() OVER w AS b FROM t WINDOW w AS (PARTITION BY k ORDER BY id)"
    both = Stepwise(query, {"t": {"id": "int64", "k": "int64", "x": "decimal(18,2)"}})
    both.apart |= WORK
    large = Decimal(9 * 10**17).scaleb(-2)
    for number in range(12):
        both.apply([((number, number % 2, large if number % 3 else -number), 1)])
        both.is_duckdbs()
    assert both.results[kernels.NOT_BEGUN] > 3, both.results
    for number in range(12):
        both.apply([((number, number % 2, large if number % 3 else -number), -1)])
        both.is_duckdbs()
    assert both.results[group_batch.DONE] > 6, both.results


def test_a_double_that_is_far_takes_the_steps() -> None:
    query = (
        "SELECT id, k, SUM(x) OVER w AS a, AVG(x) OVER (w ROWS 2 PRECEDING) AS b FROM t "
        "WINDOW w AS (PARTITION BY k ORDER BY id)"
    )
    both = Stepwise(query, {"t": {"id": "int64", "k": "int64", "x": "float64"}})
    both.apart |= WORK
    rows = [(number, number % 2, 1e300 if number == 5 else float(number)) for number in range(12)]
    for row in rows:
        both.apply([(row, 1)])
        both.is_duckdbs()
    assert both.results[kernels.NOT_BEGUN] > 1, both.results
    for row in rows:
        both.apply([(row, -1)])
        both.is_duckdbs()
    assert both.results[group_batch.DONE] > 6, both.results


@pytest.mark.parametrize(
    "kind", ["rows on both sides", "the last value so far", "running sums", "ranks", "extrema of frames"]
)
def test_a_budget_that_is_used_up_within_a_batch_refuses_it(kind: str) -> None:
    both = beside(kind, memory_budget=80_000_000)
    more: Changes = [((i, i % 7, i, i, "a", None), 1) for i in range(100, 400)]
    both.apply([((i, i % 5, i, i, "a", None), 1) for i in range(60)])
    refused = refusals(both, more, range(0, 40_000, 1_000))
    assert 2 < refused < 38, refused
    assert both.results[kernels.NOT_BEGUN], both.results


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (f"SELECT id, MIN(name) OVER ({PEERS}) AS a FROM t", "MIN over this frame has no native form"),
        (f"SELECT id, MEDIAN(v) OVER ({PEERS}) AS a FROM t", "PERCENTILE over this frame has no native form"),
        (
            "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts GROUPS 5 PRECEDING) AS a FROM t",
            "SUM over this frame has no native form",
        ),
        (
            f"SELECT id, SUM(v) OVER ({BY} ROWS 5000 PRECEDING) AS a FROM t",
            "SUM over frames of more than 4096 rows has",
        ),
    ],
)
def test_what_has_no_native_form_is_named(query: str, why: str) -> None:
    view = crown.view(query, {"t": TABLES["t"]})
    assert view._engine.pipeline is None
    assert why in " ".join(view.explain(analyze=True).split())
