"""Every subject follows the result that DuckDB computes from scratch, along small random streams."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.cases.aggregates import AGGREGATES
from bench.cases.workloads import WORKLOADS, load
from bench.subjects.baselines.numba_ivm import ALGORITHMS, NumbaIvm
from bench.subjects.baselines.python_ivm import PythonIvm
from bench.subjects.crown import MODES, Crown
from bench.subjects.peers.duck import DuckDelta, DuckRecompute
from bench.subjects.subject import SkipError
from tests.bench.small import follow, small
from tests.marks import by_turns

ROOT = Path(__file__).parents[2]
QUERIES = ("3-hop", "3-hop-jp", "4-hop", "4-hop-jp", "2-comb", "star", "snb-q2", "enclosureness")


@pytest.mark.parametrize(("workload", "algorithm"), by_turns(QUERIES, tuple(ALGORITHMS), share=2))
def test_compiled_baselines_agree_with_duckdb(workload: str, algorithm: str) -> None:
    loaded = small(workload)
    subject = NumbaIvm(loaded, "delta", algorithm, budget=1 << 26)
    assert follow(subject, loaded, 23, every=12) > 0
    if loaded.workload.kind == "graph":  # such a stream ends empty
        assert subject.stats()["input_rows"] == 0


@pytest.mark.parametrize("workload", ["3-hop", "4-hop-jp", "2-comb"])
def test_the_python_baseline_agrees_with_duckdb(workload: str) -> None:
    loaded = small(workload, seed=2)
    assert follow(PythonIvm(loaded, "delta"), loaded, 17) > 0


@pytest.mark.parametrize(
    ("workload", "mode"), by_turns(("3-hop", "snb-q3", "snb-q4", "triangle"), tuple(MODES), share=2)
)
def test_the_engine_agrees_with_duckdb_in_every_mode(workload: str, mode: str) -> None:
    loaded = small(workload, seed=3)
    assert follow(Crown(loaded, mode), loaded, 50) > 0


@pytest.mark.parametrize(
    "workload", sorted(name for name, w in WORKLOADS.items() if w.kind == "tpch" and name not in AGGREGATES)
)
def test_the_engine_agrees_with_duckdb_on_tpch(workload: str, tpch_folder) -> None:
    loaded = load(workload, None, {"tpch": tpch_folder})
    assert follow(Crown(loaded, "delta"), loaded, 1_500, every=3) > 0


@pytest.mark.parametrize("subject", [DuckDelta, DuckRecompute])
def test_duckdb_as_a_peer_agrees_with_itself(subject: type) -> None:
    loaded = small("3-hop", seed=4)
    assert follow(subject(loaded, "delta"), loaded, 60) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda loaded: Crown(loaded, "delta"),
        lambda loaded: NumbaIvm(loaded, "delta", "first-order"),
        lambda loaded: NumbaIvm(loaded, "delta", "yannakakis"),
        lambda loaded: DuckDelta(loaded, "delta"),
    ],
)
def test_loading_first_gives_the_same_deltas_afterwards(make) -> None:
    loaded = small("3-hop", seed=5)
    batches = list(loaded.stream.batches(40))
    applied, preloaded = make(loaded), make(loaded)
    for batch in batches[:5]:
        applied.apply(batch)
        preloaded.load(batch)
    for batch in batches[5:]:
        assert applied.apply(batch) == preloaded.apply(batch)


def test_what_a_subject_cannot_do_it_says_in_one_line() -> None:
    loaded = small("snb-q3")
    for make in (lambda: PythonIvm(loaded, "delta"), lambda: NumbaIvm(loaded, "delta", "standard")):
        with pytest.raises(SkipError, match="equality"):
            make()
    with pytest.raises(SkipError, match="mode none"):
        DuckDelta(small("3-hop"), "none")
    with pytest.raises(SkipError, match="cyclic"):
        NumbaIvm(small("triangle"), "delta", "first-order")


def test_the_folders_of_bench_import_one_way() -> None:
    order = ("spent", "cases", "demo", "subjects", "harness", "report", "commands")
    for file in ROOT.joinpath("bench").rglob("*.py"):
        place = file.relative_to(ROOT / "bench").with_suffix("").parts[0]
        named = re.findall(r"^ *from bench\.(\w+)", file.read_text(), re.MULTILINE)
        assert all(order.index(name) <= order.index(place) for name in named), file
