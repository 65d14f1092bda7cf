"""Nexmark: its events are what the benchmark says, and every query is maintained as DuckDB recomputes it."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from bench.cases.nexmark import NEXMARK, stream
from bench.cases.workloads import load
from bench.harness.sections.catalogue import SECTIONS
from bench.subjects.view import PublicView
from tests.bench.small import follow


@pytest.mark.parametrize("name", NEXMARK)
def test_the_view_agrees_with_duckdb_after_inserts_and_deletes(name: str) -> None:
    loaded = load(name, None, {"events": 4_000, "window": 2_000})
    assert follow(PublicView(loaded, "delta"), loaded, len(loaded.stream) // 5, every=1) > 0


def test_events_have_the_shares_and_the_references_of_the_benchmark() -> None:
    made = stream(50_000, ("person", "auction", "bid"))
    persons, auctions, bids = made.tables.values()
    assert [t.num_rows for t in (persons, auctions, bids)] == [1_000, 3_000, 46_000]
    assert (made.weight == 1).all()
    ids = {name: set(made.tables[name].column("id").to_pylist()) for name in ("person", "auction")}
    assert set(auctions.column("seller").to_pylist()) <= ids["person"]
    assert set(bids.column("bidder").to_pylist()) <= ids["person"]
    assert set(bids.column("auction").to_pylist()) <= ids["auction"]
    counts = np.sort(pc.value_counts(bids.column("auction")).field("counts").to_numpy())[::-1]
    assert counts[:30].sum() > 0.4 * bids.num_rows  # hot auctions have half of all bids
    known = bids.column("channel").to_pylist()
    assert 0.45 < sum(not one.startswith("channel") for one in known) / bids.num_rows < 0.55
    assert len(bids.column("dateTime").unique()) == bids.num_rows


def test_references_are_there_before_they_are_made() -> None:
    made = stream(5_000, ("person", "auction", "bid"))
    seen: set[tuple[str, int]] = set()
    names = list(made.tables)
    rows = [table.to_pylist() for table in made.tables.values()]
    for relation, row in zip(made.relation.tolist(), made.row.tolist(), strict=True):
        one = rows[relation][row]
        if names[relation] == "auction":
            assert ("person", one["seller"]) in seen
        if names[relation] == "bid":
            assert {("person", one["bidder"]), ("auction", one["auction"])} <= seen
        seen.add((names[relation], one.get("id", -1)))


def test_every_query_is_measured_in_batches_of_two_sizes_beside_duckdb() -> None:
    cells = SECTIONS["nexmark"]("normal")
    assert {(cell["workload"], cell["batch_rows"]) for cell in cells} == {
        (n, r) for n in NEXMARK for r in (1_000, 10_000)
    }
    assert {cell["engine"] for cell in cells} == {"crown-view", "duckdb-recompute"}
