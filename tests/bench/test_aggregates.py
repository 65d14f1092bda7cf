"""Groups, bags and outer joins as cells: the public view follows DuckDB. ``test_run`` has their quick run."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from bench.cases import checksum, cofactors
from bench.cases.aggregates import AGGREGATES
from bench.cases.checksum import of_integers
from bench.cases.datasets import graph, shuffled
from bench.cases.motifs import MOTIFS
from bench.cases.workloads import load
from bench.harness.sections.catalogue import SECTIONS
from bench.report import tables
from bench.subjects.folder import Folder
from bench.subjects.model import Model
from bench.subjects.peers.duck import DuckDelta, DuckRecompute
from bench.subjects.peers.flink_job import checkpoint, records
from bench.subjects.subject import SkipError
from bench.subjects.view import PublicView
from plans import program
from tests.bench.small import SMALL, expected, follow, small

GRAPHS = [name for name, w in AGGREGATES.items() if w.kind == "graph"]
OTHERS = {"agg-shop": {"events": 600}, "agg-snb-q4": {"persons": 40}, "agg-snb-q4-top": {"persons": 40}}
TPCH = [name for name, w in AGGREGATES.items() if w.kind == "tpch"]
# They ask for few suppliers or parts, of which small data may have none.
RARE = ("agg-tpch-q2", "agg-tpch-q7", "agg-tpch-q8", "agg-tpch-q11", "agg-tpch-q20", "agg-tpch-q21")


@pytest.mark.parametrize("mode", ["delta", "none"])
@pytest.mark.parametrize("workload", GRAPHS)
def test_the_public_view_agrees_with_duckdb(workload: str, mode: str) -> None:
    assert follow(PublicView(small(workload, seed=3), mode), small(workload, seed=3), 50) > 0


@pytest.mark.parametrize(("workload", "less"), [("agg-group", True), ("agg-2-hop-sum", False)])
def test_a_view_that_trusts_its_stream_agrees_too_and_keeps_less_where_no_join_has_the_rows(
    workload: str, less: bool
) -> None:
    loaded = small(workload, seed=6)
    trusting, asking = PublicView(loaded, "delta", on_missing="trust"), PublicView(loaded, "delta")
    for subject in (trusting, asking):
        subject.apply(loaded.stream.batch(0, 100))
    assert (trusting.state_bytes() < asking.state_bytes()) == less
    assert follow(PublicView(loaded, "delta", on_missing="trust"), loaded, 50) > 0


@pytest.mark.parametrize("workload", TPCH)
def test_the_public_view_agrees_with_duckdb_on_tpch(workload: str, tpch_folder) -> None:
    loaded = load(workload, None, {"tpch": tpch_folder})
    rows = follow(PublicView(loaded, "delta"), loaded, 2_000, every=3)
    assert rows > 0 or workload in RARE


def test_all_of_tpch_is_measured_and_every_query_has_rows_that_come_and_go(tpch_folder) -> None:
    assert {f"agg-tpch-q{number}" for number in range(1, 23)} == set(TPCH)
    for workload in TPCH:
        stream = load(workload, None, {"tpch": tpch_folder}).stream
        gone = {list(stream.tables)[number] for number in set(stream.relation[stream.weight < 0].tolist())}
        assert gone in ({"orders"}, {"lineitem"}, {"orders", "lineitem"}, {"partsupp"}), workload
        assert 0.15 < (stream.weight < 0).sum() / len(stream) <= 0.5, workload


@pytest.mark.parametrize("workload", OTHERS)
def test_the_public_view_agrees_with_duckdb_on_other_streams(workload: str) -> None:
    loaded = load(workload, "generated", OTHERS[workload])
    assert follow(PublicView(loaded, "delta"), loaded, 100) > 0


@pytest.mark.parametrize("workload", MOTIFS)
def test_the_public_view_agrees_with_duckdb_on_every_motif(workload: str) -> None:
    loaded = load(workload, "generated", SMALL | {"vertices": 60, "edges": 500, "window": 160})
    assert follow(PublicView(loaded, "delta"), loaded, 60, every=3) > 0


def test_a_view_in_a_folder_agrees_with_duckdb_whenever_it_was_opened_again() -> None:
    loaded = load("agg-shop", "generated", OTHERS["agg-shop"])
    subject = Folder(loaded, "delta")
    subject.checking()
    half = len(loaded.stream) // 2
    subject.apply(loaded.stream.batch(0, half))
    stats = subject.stats()
    assert stats["checkpoint_bytes"] > 10_000
    assert 0 < stats["restart_s"] < 60
    assert subject.totals() == expected(loaded, half)
    subject.apply(loaded.stream.batch(half, len(loaded.stream)))
    assert subject.totals() == expected(loaded, len(loaded.stream))
    folder = Path(subject._folder.name)
    subject.close()
    assert not folder.exists()


def test_the_shop_has_rows_that_find_nothing_at_every_step() -> None:
    loaded = load("agg-shop", "generated", {"events": 4_000})
    alive = loaded.stream.alive(len(loaded.stream) * 2 // 3)
    with duckdb.connect(":memory:") as connection:
        for name, table in alive.items():
            connection.register(name, table)
        sums = ", ".join(f"sum({name})" for name in ("events", "ordered", "stocked"))
        ((events, ordered, stocked),) = connection.execute(f"SELECT {sums} FROM ({loaded.sql})").fetchall()
        ((priced,),) = connection.execute(
            "SELECT count(*) FROM stock JOIN prices ON s_supplier = p_supplier"
        ).fetchall()
    assert events > ordered > stocked > 0
    assert 0 < priced < alive["stock"].num_rows
    assert all(table.num_rows == len(set(table.column(0).to_pylist())) for table in alive.values())


def test_the_sums_of_a_regression_are_those_of_duckdb() -> None:
    loaded = load("agg-cofactors", "generated", {"rows": 60})
    assert len(cofactors.VARIABLES) == 27
    assert len(cofactors.SUMS) == 1 + 27 + 27 * 28 // 2
    half, subject = len(loaded.stream) // 2, Model(loaded, "none")
    for batch in loaded.stream.head(half).batches(120):
        subject.apply(batch)
    found = subject.totals()
    assert found == expected(loaded, half)
    assert found.checksum != of_integers([0] * len(cofactors.SUMS))
    with pytest.raises(SkipError, match="without being delivered"):
        Model(small("agg-group"), "none")


def test_what_flink_says_of_its_last_checkpoint_is_understood() -> None:
    done = {"external_path": "file:/c/chk-7", "state_size": 900, "checkpointed_size": 300}
    told = {"path": "file:/c/chk-7", "state_bytes": 900, "checkpoint_bytes": 300}
    assert checkpoint({"latest": {"completed": done}}) == told
    for none in (None, {}, {"latest": {"completed": None}}, {"latest": None}):
        assert checkpoint(none) == {}


def test_flink_has_done_what_the_sources_of_all_tables_have_emitted() -> None:
    told = [("0.Source__events[1].numRecordsOut", 70), ("0.Source__orders[5].numRecordsOut", 30)]
    assert records(told) == 100
    twice = [("0.Source__G[1].numRecordsOut", 70), ("0.Source__G[9].numRecordsOut", 50)]
    assert records(twice) == 50, "the slower of two scans"
    assert records([]) == 0


def test_what_lasts_is_measured_with_a_full_window() -> None:
    for scale in ("quick", "normal"):
        for cell in (c for c in SECTIONS["aggregates"](scale) if c["engine"] in ("crown-folder", "flink-restart")):
            stream = load("agg-shop", "generated", cell["options"]).stream
            assert stream.weight.sum() > 0.9 * stream.most_alive(), cell["engine"]


@pytest.mark.parametrize("workload", ["agg-group", "agg-outer"])
def test_duckdb_recomputes_what_it_is_compared_with(workload: str) -> None:
    loaded = small(workload, seed=4)
    assert follow(DuckRecompute(loaded, "delta"), loaded, 60) > 0


def test_what_is_no_single_join_has_no_delta_queries() -> None:
    with pytest.raises(SkipError, match="for one join"):
        DuckDelta(small("agg-group"), "delta")
    with pytest.raises(SkipError, match="no mode full"):
        PublicView(small("agg-group"), "full")


def test_the_checksum_of_decimals_floats_and_nulls_is_the_same_in_arrow_and_in_sql() -> None:
    schema = {"t": {"k": "int64", "d": "decimal(38,4)", "f": "float64", "s": "string"}}
    big = Decimal("123456789012345678901234567890.1234")
    table = pa.table(
        {
            "k": pa.array([1, -2, None, 4], pa.int64()),
            "d": pa.array([big, -big, None, Decimal("-0.0001")], pa.decimal128(38, 4)),
            "f": pa.array([1.5, -2.0005, 0.1, None]),
            "s": ["a", None, "ccc", ""],
        }
    )
    made = program("SELECT DISTINCT k, d, f, s FROM t", schema)
    with duckdb.connect(":memory:") as connection:
        connection.register("t", table)
        ((count, total),) = connection.execute(checksum.sql("SELECT k, d, f, s FROM t", made.output)).fetchall()
    for one in (table, table.slice(0, 4), pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        assert (count, total) == (4, checksum.of_batch(one, 4).sum())
    assert len(set(checksum.of_batch(table, 4).tolist())) == 4


def test_shuffled_edges_are_the_same_edges_in_another_order() -> None:
    given = graph("generated", vertices=50, edges=200)
    mixed = shuffled(given)
    assert mixed.edges != given.edges
    assert sorted(mixed.edges.to_pylist(), key=str) == sorted(given.edges.to_pylist(), key=str)


def test_every_aggregate_is_measured_in_both_batch_sizes_beside_duckdb() -> None:
    cells = SECTIONS["aggregates"]("normal")
    for name in AGGREGATES:
        for engine in ("crown-model" if name == "agg-cofactors" else "crown-view", "duckdb-recompute"):
            found = {c["batch_rows"] for c in cells if (c["workload"], c["engine"]) == (name, engine)}
            assert found == ({10_000, 1_000} if (name, engine) != ("agg-star", "duckdb-recompute") else set())
    assert {c["engine"] for c in cells if c["workload"] == "agg-shop"} >= {"crown-folder", "flink-restart"}


def test_a_recompute_that_is_faster_is_listed_as_a_loss_in_its_batch_size_only() -> None:
    def cell(engine: str, rows: int, rate: float) -> dict:
        same = {"workload": "agg-group", "title": "grouped", "mode": "delta", "status": "ok", "repeats": 1}
        rates = {"updates_per_s": rate, "updates_per_s_median": rate}
        return same | rates | {"engine": engine, "engine_title": engine, "batch_rows": rows, "law": "batch", "x": rows}

    cells = [cell("crown-view", 1_000, 50.0), cell("duckdb-recompute", 1_000, 100.0)]
    cells += [cell("crown-view", 10_000, 50.0), cell("duckdb-recompute", 10_000, 10.0)]
    (row,) = tables.losses({"aggregates": {"cells": cells}}).rows
    assert row[1:3] == ("batch 1,000", "duckdb-recompute")
    assert row[-1] == "2.00"
