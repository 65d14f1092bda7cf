"""Native engines as cells: built ones agree with DuckDB; absent ones, wrong ones and broken ones say so in a line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.cases.workloads import WORKLOADS
from bench.harness.oracle import expectation
from bench.harness.sections import SECTIONS
from bench.report.sections import native as table
from bench.subjects.catalogue import ENGINES
from bench.subjects.peers import foreign, native

ROOT = Path(__file__).parents[2]
SMALL = {"vertices": 300, "edges": 1_500}
CELLS = [(engine, workload) for engine, written in native.WRITTEN.items() for workload in written]


def cell(engine: str, workload: str, **more: Any) -> dict[str, Any]:
    spec = {"mode": "delta", "workload": workload, "data": "generated", "options": SMALL, "bound_s": 5.0}
    spec |= {"batch_rows": 200, "check": expectation(workload, "generated", SMALL)} | more
    result: dict[str, Any] = ENGINES[engine].load()(spec, lambda done, of: None)
    return result


@pytest.mark.parametrize(("engine", "workload"), CELLS)
def test_a_native_engine_agrees_with_duckdb_where_it_is_built(engine: str, workload: str) -> None:
    if not (native.DBSP if engine == "dbsp" else native.DIFFERENTIAL).exists():
        pytest.skip(f"{engine} is not built: make bench-peers, which needs cargo")
    found = cell(engine, workload)
    assert (found["status"], found["check"]["status"]) == ("ok", "passed"), found
    assert found["updates"] == found["of"]
    assert found["updates_per_s"] > 0


@pytest.mark.parametrize(("engine", "said"), [("dd", "differential dataflow"), ("dbsp", "dbsp")])
def test_one_that_is_not_built_is_skipped_in_a_line(monkeypatch, tmp_path, engine: str, said: str) -> None:
    monkeypatch.setattr(native, "DBSP" if engine == "dbsp" else "DIFFERENTIAL", tmp_path / "absent")
    found = cell(engine, "3-hop", check=None)
    assert (found["status"], found["reason"]) == (
        "skipped",
        f"{said} is not built (make bench-peers, which needs cargo)",
    )


def test_what_nobody_has_written_is_skipped() -> None:
    found = cell("dbsp", "dumbbell", check=None)
    assert found["status"] == "skipped"
    assert "no dataflow is written for Dumbbell" in found["reason"]


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\nimport sys\nsys.stdin.read()\n{text}\n")
    path.chmod(0o755)
    return path


def test_one_that_counts_wrong_has_no_time(monkeypatch, tmp_path) -> None:
    text = """print('{"result": {"count": 1, "checksum": 2, "seconds": 1, "emitted": 9, "warm": 1, "deltas": 3}}')"""
    monkeypatch.setattr(native, "DBSP", program(tmp_path / "wrong", text))
    found = cell("dbsp", "3-hop")
    assert found["status"] == "wrong"
    assert "rows and checksum [1, 2]; DuckDB has" in found["reason"]
    assert "updates_per_s" not in found


def test_of_a_trace_of_java_the_cause_is_told(tmp_path) -> None:
    trace = (
        "a\\norg.apache.JobException: it failed\\n\\tat x.y\\nCaused by: java.io.IOException: no room\\n\\t... 5 more"
    )
    command = [str(program(tmp_path / "java", f"sys.stderr.write('{trace}\\n'); sys.exit(1)"))]
    with pytest.raises(foreign.ForeignError, match=r"^java\.io\.IOException: no room$"):
        foreign.converse(command, {}, 30.0, lambda done, of: None)


def test_the_sources_have_every_workload_that_is_measured() -> None:
    sources = {"dd": "src/dataflows.rs", "dd-delta": "src/delta_queries.rs", "dbsp": "dbsp/src/circuits.rs"}
    for engine, file in sources.items():
        text = (ROOT / "bench" / "peers" / file).read_text()
        names = {name for name in re.findall(r'"([\w-]+)"', text) if name in WORKLOADS}
        assert names == set(native.WRITTEN[engine])
    for scale in ("quick", "normal"):
        assert {c["engine"] for c in SECTIONS["native"](scale)} >= set(sources)
    normal = {(c["engine"], c["workload"]) for c in SECTIONS["native"]("normal")}
    assert normal >= set(CELLS)


def test_every_engine_stands_beside_ours_in_the_report() -> None:
    rates = {"updates_per_s": 10.0, "updates_per_s_median": 10.0, "repeats": 1, "status": "ok", "batch_rows": 100}
    cells = [
        rates | {"title": "3-Hop", "workload": "3-hop", "mode": "delta", "engine": name, "engine_title": name}
        for name in ("crown", "dd", "dbsp")
    ]
    shown = table.beside(cells)
    assert [row[shown.headings.index("CROWN, times")] for row in shown.rows] == ["–", "x 1.00", "x 1.00"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_without_cargo_what_is_left_out_is_said_in_a_line(tmp_path) -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, "-s", "native-peers"], cwd=ROOT, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("differential dataflow and dbsp are left out")
