"""Motifs in the benchmark: the quick run agrees with DuckDB, and has a row per motif."""

from __future__ import annotations

import argparse

import pytest

from bench import commands
from bench.cases.motifs import MOTIFS
from bench.harness import results
from bench.report.sections import aggregates


@pytest.mark.slow  # test_run has the section in every run
def test_the_quick_run_checks_every_motif_before_its_time_counts(tmp_path) -> None:
    parser = argparse.ArgumentParser()
    commands.add_arguments(parser)
    words = ["run", "--quick", "--section", "motifs", "--data", "generated", "--out", str(tmp_path)]
    assert commands.run(parser.parse_args(words)) == 0
    cells = results.read(tmp_path)["motifs"]["cells"]
    mine = [cell for cell in cells if cell["engine"] == "crown-view"]
    assert {cell["workload"] for cell in mine} == set(MOTIFS)
    for cell in mine:
        assert (cell["status"], cell["check"]["status"]) == ("ok", "passed"), cell
        assert cell["deltas"] > 0
    shown = aggregates.rates(cells)
    beside = [row[shown.headings.index("DuckDB recompute")] for row in shown.rows]
    assert len(beside) == len(MOTIFS)
    assert "–" not in beside
