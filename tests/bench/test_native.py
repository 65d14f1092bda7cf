"""Native engines as cells: built ones agree with DuckDB; absent ones, wrong ones and broken ones say so in a line."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from bench.cases import integers
from bench.cases.streams import Stream
from bench.cases.workloads import WORKLOADS, load
from bench.harness.machine import one_core
from bench.harness.measure import measure
from bench.harness.oracle import expectation
from bench.harness.sections.catalogue import SECTIONS
from bench.report.sections import native as table
from bench.subjects.catalogue import ENGINES
from bench.subjects.crown import Crown
from bench.subjects.peers import foreign, native
from bench.subjects.subject import SkipError
from tests.bench.small import small

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "bench" / "peers"
SMALL = {"vertices": 300, "edges": 1_500, "persons": 60}
CELLS = [(engine, workload) for engine, written in native.WRITTEN.items() for workload in written]


@cache
def truth(workload: str, tpch: str | None = None) -> dict[str, Any]:
    """What DuckDB has: asked once for all engines."""
    return expectation(workload, "generated", SMALL | ({"tpch": tpch} if tpch else {}))


def cell(engine: str, workload: str, tpch: str | None = None, **more: Any) -> dict[str, Any]:
    spec = {"mode": "delta", "workload": workload, "data": "generated", "bound_s": 5.0, "batch_rows": 200} | more
    few = {"rows": 500} if WORKLOADS[workload].kind in ("ordered", "recursion") else {}
    spec["options"] = SMALL | ({"tpch": tpch} if tpch else {}) | few
    if "check" not in spec:
        spec["check"] = truth(workload, tpch)
    result: dict[str, Any] = ENGINES[engine].load()(spec, lambda done, of: None)
    return result


@pytest.mark.parametrize(("engine", "workload"), CELLS)
def test_a_native_engine_agrees_with_duckdb_where_it_is_built(request, engine: str, workload: str) -> None:
    if not (native.DBSP if engine == "dbsp" else native.DIFFERENTIAL).exists():
        pytest.skip(f"{engine} is not built: make bench-peers, which needs cargo")
    tables = WORKLOADS[workload].kind == "tpch"
    found = cell(engine, workload, str(request.getfixturevalue("tpch_folder")) if tables else None)
    assert (found["status"], found["check"]["status"]) == ("ok", "passed"), found
    assert found["check"]["rows"] > 0
    assert found["updates"] == found["of"]
    assert found["updates_per_s"] > 0
    assert 0 < found["rss_before"] <= found["rss_peak"]


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
    path.write_text(f"#!{sys.executable}\nimport sys\nasked = sys.stdin.read()\n{text}\n")
    path.chmod(0o755)
    return path


def test_one_that_counts_wrong_has_no_time(monkeypatch, tmp_path) -> None:
    text = """print('{"result": {"count": 1, "checksum": 2, "seconds": 1, "emitted": 9, "warm": 1, "deltas": 3}}')"""
    monkeypatch.setattr(native, "DBSP", program(tmp_path / "wrong", text))
    found = cell("dbsp", "3-hop")
    assert found["status"] == "wrong"
    assert "rows and checksum [1, 2]; DuckDB has" in found["reason"]
    assert "updates_per_s" not in found


def test_a_run_is_repeated_as_ours_is_and_the_median_counts(monkeypatch, tmp_path) -> None:
    text = f"""
import json, pathlib
before = pathlib.Path({str(tmp_path / "runs")!r})
runs = len(before.read_text()) if before.exists() else 0
before.write_text("x" * (runs + 1))
seconds, done = [2.0, 1.0, 4.0, 3.0][runs], json.loads(asked)["bound_s"]
result = {{"seconds": seconds, "emitted": done, "warm": 0, "deltas": 8, "rss_before": 5, "rss_peak": 7}}
print(json.dumps({{"result": result}}))"""
    monkeypatch.setattr(native, "DIFFERENTIAL", program(tmp_path / "peer", text))
    of = len(load("3-hop", "generated", SMALL).stream)
    found = cell("dd", "3-hop", check=None, bound_s=of, repeats=3)
    assert (found["repeats"], found["seconds"]) == (3, [2.0, 1.0, 4.0])
    assert found["updates_per_s"] == of
    assert found["updates_per_s_median"] == of / 2
    (tmp_path / "runs").unlink()
    assert cell("dd", "3-hop", check=None, bound_s=of, repeats=3, repeat_budget_s=3.0)["repeats"] == 1
    (tmp_path / "runs").unlink()
    assert cell("dd", "3-hop", check=None, bound_s=of - 1, repeats=3)["repeats"] == 1  # it was stopped
    (tmp_path / "runs").unlink()
    early = cell("dd", "3-hop", check=None, bound_s=1, repeats=3)
    assert "updates_per_s" not in early
    assert early["reason"].startswith(f"its warm-up was not over within its bound: 1 of {of:,} updates, ")


def test_of_a_trace_of_java_the_cause_is_told(tmp_path) -> None:
    trace = (
        "a\\norg.apache.JobException: it failed\\n\\tat x.y\\nCaused by: java.io.IOException: no room\\n\\t... 5 more"
    )
    command = [str(program(tmp_path / "java", f"sys.stderr.write('{trace}\\n'); sys.exit(1)"))]
    with pytest.raises(foreign.ForeignError, match=r"^java\.io\.IOException: no room$"):
        foreign.converse(command, {}, 30.0, lambda done, of: None)


def test_of_a_trace_without_a_cause_the_error_is_told(tmp_path) -> None:
    trace = "Traceback\\n: org.x.TableException: no such window\\n\\tat x.y(Z.java:5)\\n\\tat a.b(C.java:1)\\n"
    command = [str(program(tmp_path / "java", f"sys.stderr.write('{trace}\\n'); sys.exit(1)"))]
    with pytest.raises(foreign.ForeignError, match=r"^org\.x\.TableException: no such window$"):
        foreign.converse(command, {}, 30.0, lambda done, of: None)


def test_the_sources_have_every_workload_that_is_measured() -> None:
    delta = PEERS / "src" / "delta_queries.rs"
    sources = {"dd": set((PEERS / "src").glob("*.rs")) - {delta}, "dd-delta": {delta}}
    sources["dbsp"] = set((PEERS / "dbsp" / "src").glob("*.rs"))
    for engine, files in sources.items():
        text = "".join(file.read_text() for file in files)
        names = {name for name in re.findall(r'"([\w-]+)"', text) if name in WORKLOADS}
        assert names == set(native.WRITTEN[engine])
    for scale in ("quick", "normal"):
        assert {c["engine"] for c in SECTIONS["native"](scale)} >= set(sources)
    normal = {
        (c["engine"], c["workload"]) for name in ("native", "ordered", "recursion") for c in SECTIONS[name]("normal")
    }
    assert normal >= set(CELLS)


def test_the_stream_is_one_file_of_rows_and_updates_that_gives_every_value_back(tmp_path) -> None:
    day = datetime.date(1995, 3, 15)
    columns = {
        "key": pa.array([7, None, 2**40]),
        "name": pa.array(["ÅSIA", "b", "ÅSIA"]),
        "day": pa.array([day, None, datetime.date(1970, 1, 1)]),
        "money": pa.array([Decimal("-1.25"), Decimal("900719925474099.20"), Decimal("0.00")], pa.decimal128(17, 2)),
    }
    rows, ones = np.array([2, 0, 0]), np.array([1, 1, -1])
    stream = Stream("", {"T": pa.table(columns)}, np.zeros(3, np.int16), rows, ones)
    sql = "SELECT 'ÅSIA', 'absent' WHERE day < DATE '1995-03-15'"
    loaded = replace(small("snb-q4"), stream=stream, sql=sql)
    path = tmp_path / "stream"
    tables, literals = native.write(loaded, path)
    assert tables == [{"name": "T", "columns": list(columns), "rows": 3}]
    words = np.frombuffer(path.read_bytes()[: 3 * 4 * 8], "<i8").reshape(3, 4)
    assert words[:, 0].tolist() == [7, integers.NULL, 2**40]
    assert words[0, 1] == words[2, 1] == literals["ÅSIA"] != words[1, 1]
    assert (words[:, 1] & 0xFFFFFFFF).tolist() == [4, 1, 4]
    assert words[:, 2].tolist() == [literals["1995-03-15"], integers.NULL, 0]
    assert literals["1995-03-15"] == (day - datetime.date(1970, 1, 1)).days
    assert literals["absent"] == -1
    assert words[:, 3].tolist() == [-125, 90071992547409920, 0]
    updates = np.frombuffer(path.read_bytes()[3 * 4 * 8 :], [("row", "<u4"), ("table", "<u2"), ("weight", "<i2")])
    assert updates.tolist() == [(2, 0, 1), (0, 0, 1), (0, 0, -1)]


def test_integers_that_a_dataflow_has_no_room_for_are_skipped_in_a_line(tmp_path) -> None:
    loaded = small("3-hop")
    edges = pa.table({"src": [1, 2**31], "dst": [0, 1]})
    wide = replace(loaded, stream=Stream("", {"G": edges}, np.zeros(1, np.int16), np.zeros(1, int), np.ones(1, int)))
    with pytest.raises(SkipError, match=r"^written for integers from 0 to 2147483647; G has others$"):
        native.write(wide, tmp_path / "stream")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not keep processes on cores")
def test_native_engines_and_this_one_beside_them_stay_on_one_core(tmp_path) -> None:
    text = "import json, os; print(json.dumps({'result': {'cores': sorted(os.sched_getaffinity(0))}}))"
    command = [str(program(tmp_path / "cores", text))]
    free = os.sched_getaffinity(0)
    assert foreign.converse(command, {}, 30.0, lambda done, of: None)[0]["cores"] == sorted(free)
    assert foreign.converse(command, {}, 30.0, lambda done, of: None, one_core=True)[0]["cores"] == [max(free)]
    with one_core():
        assert os.sched_getaffinity(0) == {max(free)}
    assert os.sched_getaffinity(0) == free
    assert all(c["one_core"] for c in SECTIONS["native"]("normal"))


def test_this_engine_counts_the_updates_that_native_ones_count() -> None:
    assert all(c["counted_as_elsewhere"] for c in SECTIONS["native"]("normal"))
    loaded = load("3-hop", "generated", SMALL)
    begun = -(-foreign.warm_rows(len(loaded.stream)) // 100) * 100
    assert 0 < begun < len(loaded.stream)
    spec = {"workload": "3-hop", "data": "generated", "options": SMALL, "batch_rows": 100, "mode": "delta"}
    seen: list[int] = []

    class Counting(Crown):
        def apply(self, batch):
            seen.append(sum(len(rows) for rows in batch.values()))
            return super().apply(batch)

    elsewhere = measure(
        spec | {"counted_as_elsewhere": True}, lambda one: Counting(one, "delta"), lambda done, of: None
    )
    assert elsewhere["of"] == elsewhere["updates"] == len(loaded.stream) - begun
    assert sum(seen) == len(loaded.stream) + elsewhere["warm_up_updates"]  # they are applied all the same
    whole = measure(spec, lambda one: Crown(one, "delta"), lambda done, of: None)
    assert whole["of"] == whole["updates"] == len(loaded.stream)


def test_every_engine_stands_beside_ours_in_the_report() -> None:
    memory = {"rss_before": 2 << 20, "rss_peak": 5 << 20}
    rates = {"updates_per_s": 10.0, "updates_per_s_median": 10.0, "repeats": 1, "status": "ok", "batch_rows": 100}
    cells = [
        rates | {"title": "3-Hop", "workload": "3-hop", "mode": "delta", "engine": name, "engine_title": name}
        for name in ("crown", "dd", "dbsp")
    ]
    cells[1:] = [one | memory for one in cells[1:]]
    cells[1] |= {"updates_per_s_median": 20.0}
    shown = table.beside(cells)
    assert [row[shown.headings.index("CROWN, times")] for row in shown.rows] == ["–", "x 0.50", "x 1.00"]
    assert [row[shown.headings.index("added by the run")] for row in shown.rows] == ["–", "3 MiB", "3 MiB"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_without_cargo_what_is_left_out_is_said_in_a_line(tmp_path) -> None:
    make = shutil.which("make")
    assert make is not None
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        [make, "-s", "native-peers"], cwd=ROOT, env=alone | {"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("differential dataflow and dbsp are left out")


def test_a_query_over_integers_has_the_groups_of_the_same_query_over_values() -> None:
    shop = {
        "customer": pa.table({"c_custkey": [1, 2], "c_mktsegment": ["BUILDING", "MACHINERY"]}),
        "lineitem": pa.table(
            {
                "l_custkey": [1, 1, 2],
                "l_extendedprice": pa.array([Decimal("10.50"), Decimal("2.00"), Decimal("7.25")], pa.decimal128(15, 2)),
                "l_discount": pa.array([Decimal("0.10"), Decimal("0.00"), Decimal("0.05")], pa.decimal128(15, 2)),
                "l_shipdate": pa.array(
                    [datetime.date(1995, 3, 16), datetime.date(1995, 3, 1), datetime.date(1996, 1, 1)]
                ),
            }
        ),
    }
    sql = (
        "SELECT c_mktsegment, SUM(l_extendedprice * (1 - l_discount)) AS s FROM customer, lineitem "
        "WHERE c_custkey = l_custkey AND l_shipdate > DATE '1995-03-15' AND c_mktsegment = 'BUILDING' GROUP BY 1"
    )
    query, tables = integers.as_integers(sql, shop)
    assert all(field.type == pa.int64() for table_ in tables.values() for field in table_.schema)
    connection = duckdb.connect()
    found = []
    for text, given in ((sql, shop), (query, tables)):
        for name, rows in given.items():
            connection.register(name, rows)
        found.append([row[1] for row in connection.execute(text).fetchall()])
    assert found[0] == [Decimal("9.4500")]
    assert found[1] == [94_500]
