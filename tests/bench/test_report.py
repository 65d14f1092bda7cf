"""The report: tables that markdown reads as they are meant, no card alone in its row, charts that scroll."""

from __future__ import annotations

import re

from bench.harness.sections.catalogue import SECTIONS
from bench.report import report, tables
from bench.report.page import PAGE
from bench.report.style import COLOURS
from bench.report.text import line_of
from bench.subjects.catalogue import ENGINES


def test_a_bar_does_not_end_a_cell_of_a_markdown_table() -> None:
    made = tables.markdown(tables.Table(("|D|", "rate"), [("a|b", "1")], [True]))
    assert made.splitlines() == ["| \\|D\\| | rate |", "|---|---|", "| **a\\|b** | 1 |"]


def test_the_page_is_light_or_dark_as_the_readers_system_is() -> None:
    light, _, dark = PAGE.partition("@media (prefers-color-scheme: dark)")
    names = set(re.findall(r"(--[a-z-]+): #", light))
    assert set(re.findall(r"(--[a-z-]+): #", dark.partition("figure svg")[0])) == names
    assert set(re.findall(r"var\((--[a-z-]+)\)", PAGE)) - {"--columns"} <= names
    assert "#" not in dark.partition("\n}\n")[2].partition("</style>")[0], "colours have names"


def test_no_card_is_alone_in_the_last_row() -> None:
    for cards in range(2, 60):
        columns = report._columns(cards)
        assert cards % columns != 1, cards


def test_the_engine_stands_out_and_what_is_beside_it_does_not() -> None:
    shown = tables.html(tables.Table(("query", "data", "engine"), [("q", "d", "CROWN")], [True]))
    assert '<td class="t">d</td><td class="engine">CROWN</td>' in shown
    assert "tr.ours td.engine" in PAGE


def test_every_engine_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(ENGINES)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_a_rate_is_one_number_wherever_it_is_shown() -> None:
    def measured(engine: str, best: float, median: float) -> dict[str, object]:
        return {
            "engine": engine,
            "workload": "3-hop",
            "mode": "delta",
            "updates_per_s": best,
            "updates_per_s_median": median,
            "deltas_per_s": best,
            "repeats": 3,
        }

    engines = {"cells": [measured("crown", 9e6, 8e6), measured("dd", 3e6, 2e6)]}
    sections = {"targets": {"cells": [measured("crown", 7e6, 6e6)]}, "engines": engines}
    top = report.tiles(sections)[0]
    assert top == ("8 M/s", "updates, 3-Hop, every delta enumerated, one core; the median of 3 runs")
    texts = re.findall(r"<!-- (.*?) -->", report.front(sections)) + re.findall(
        r">([^<>]+)</text>", report.front(sections)
    )
    assert "8 M" in texts
    assert "2 M  ·  CROWN is 4.0 × as fast" in texts
    assert not {"6 M", "7 M", "9 M"} & set(texts)


def test_only_engines_of_others_are_faster_than_ours() -> None:
    def measured(engine: str, rate: float) -> dict[str, object]:
        cell = {
            "engine": engine,
            "engine_title": ENGINES[engine].title,
            "title": "3-Hop",
            "mode": "delta",
            "batch_rows": 10,
            "updates_per_s": rate,
        }
        return cell | {"updates_per_s_median": rate}

    cells = [measured("crown", 9.0), measured("crown-view", 7.0), measured("dd", 8.0), measured("flink", 1.0)]
    found = tables.losses({"engines": {"cells": cells}})
    assert [row[2] for row in found.rows] == ["differential dataflow"]


def test_every_section_tells_which_engines_are_faster_also_by_one_run() -> None:
    """A cell that was stopped in its first run has one figure, which is its median."""
    shared = {"title": "parts", "mode": "delta", "law": "rows", "x": 100_000, "status": "timeout", "repeats": 1}

    def measured(engine: str, rows: int, rate: float) -> dict[str, object]:
        rates = {"updates_per_s": rate, "updates_per_s_median": rate, "updates": 63, "of": 100}
        return shared | rates | {"engine": engine, "engine_title": engine, "batch_rows": rows}

    cells = [measured("crown-view", 1_000, 95.0), measured("duckdb-recompute", 1_000, 201.0)]
    cells += [measured("crown-view", 10_000, 300.0), measured("flink", 0, 100.0)]
    for name in SECTIONS:
        rows = tables.losses({name: {"cells": cells}}).rows
        assert [row[1:3] for row in rows] == [
            ("100,000 rows, batch 1,000", "duckdb-recompute"),
            ("100,000 rows, batch 1,000", "flink"),
        ]
        assert rows[0][3:] == ("95 (stopped at 63 %)", "201 (stopped at 63 %)", "2.12")


def test_a_cell_of_nights_is_a_line_with_the_seconds_of_each() -> None:
    nights = [{"share": 0.001, "rows": 10, "run": 4.04}, {"share": 0.01, "rows": 100, "run": 6.0}]
    cell = {"title": "Views after a night", "engine_title": "crown", "mode": "pipelines", "nights": nights}
    assert line_of(cell | {"status": "ok"}).endswith("0.1% in 4.0 s, 1.0% in 6.0 s")
    assert line_of(cell | {"status": "wrong", "reason": "other rows"}).endswith("wrong: other rows")
