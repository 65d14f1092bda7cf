"""Runs sections: data are prepared once, expectations computed once, and every cell runs in a process of its own.

Processes run one at a time. At the quick scale all cells run in this process. A cell that does not return within its
bound, plus a grace time for starting, is ended.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bench.cases import tpcds
from bench.cases.datasets import DataError
from bench.cases.tpch import tables as tpch
from bench.cases.workloads import WORKLOADS
from bench.harness import results
from bench.harness.cell import run
from bench.harness.machine import machine
from bench.harness.oracle import expectation
from bench.harness.sections.catalogue import SECTIONS
from bench.harness.sections.cells import Cell
from bench.subjects.catalogue import ENGINES
from bench.subjects.peers.foreign import interpreter
from bench.subjects.subject import SkipError

GRACE_S = 90.0  # for imports, generating data, and the check
TPCDS_SCALE = {"quick": tpcds.SMALL, "normal": tpcds.SMALL, "full": 1.0}
TPCH_SCALE = {"quick": 0.001, "normal": 0.05, "full": 1.0}
Report = Callable[[Cell], None]


def run_section(
    name: str, scale: str, data: str | None, folder: Path, wanted: Callable[[Cell], bool], report: Report
) -> Path | None:
    """Measures the cells of a section that are ``wanted`` and writes them. Returns None if there are none."""
    cells = [cell for cell in SECTIONS[name](scale) if wanted(cell)]
    if not cells:
        return None
    here = machine()
    data = unpacked(data, folder)
    expected: dict[str, dict[str, Any]] = {}
    done = []
    bar = tqdm(cells, desc=f"{name:12}", unit="cell", dynamic_ncols=True, disable=not sys.stderr.isatty())
    for cell in bar:
        bar.set_postfix_str(f"{cell['workload']} {cell['engine']} {cell['mode']}")
        cell["data_path"] = cell.pop("data", data)
        done.append(_measured(cell, scale, folder, expected))
        results.write(folder, name, here, scale, done)
        report(done[-1])
    return folder / f"{name}.json"


def _measured(cell: Cell, scale: str, folder: Path, expected: dict[str, dict[str, Any]]) -> Cell:
    """Returns the cell with its result."""
    titles: Cell = {
        "title": WORKLOADS[cell["workload"]].title,
        "engine_title": ENGINES[cell["engine"]].title,
        "scale": scale,
    }
    cell = titles | cell
    data = cell.pop("data_path")
    checked = cell.pop("checked")
    try:
        options = dict(cell["options"])
        if WORKLOADS[cell["workload"]].kind == "tpch":
            factor = float(options.get("scale_factor", TPCH_SCALE[scale]))
            options["tpch"] = str(tpch.prepare(folder / "data", factor))
        if WORKLOADS[cell["workload"]].kind == "tpcds":
            options["tpcds_scale"] = TPCDS_SCALE[scale]
            python = interpreter("duckdb_extension_tpcds", "tpcds")
            options["tpcds"] = str(tpcds.prepare(folder / "data", TPCDS_SCALE[scale], python))
        spec = cell | {"data": data, "options": options}
        if checked:
            key = json.dumps([cell["workload"], data, options], sort_keys=True)
            if key not in expected:
                expected[key] = expectation(cell["workload"], data, options)
            spec["check"] = expected[key]
    except FileNotFoundError:
        return cell | {"status": "skipped", "reason": "TPC-H needs tpchgen-cli (pip install tpchgen-cli)"}
    except ImportError:
        return cell | {"status": "skipped", "reason": "checking needs DuckDB (pip install duckdb)"}
    except (DataError, SkipError) as error:
        return cell | {"status": "skipped", "reason": str(error)}
    if scale == "quick":  # starting a process takes longer than the measurement
        return cell | run(spec, io.StringIO())
    return cell | in_process(spec)


def in_process(spec: dict[str, Any]) -> dict[str, Any]:
    """Measures a cell in a process of its own. Returns its last report if the process had to be ended."""
    limit = spec["bound_s"] * (spec["repeats"] + 1) + GRACE_S
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_root()), environment.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "bench.harness.cell"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(json.dumps(spec))
    process.stdin.close()
    said: list[str] = []
    errors: list[str] = []
    readers = [
        threading.Thread(target=said.extend, args=(process.stdout,), daemon=True),
        threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True),
    ]
    for reader in readers:
        reader.start()
    position = f"cell {spec['workload']}"
    bar = tqdm(total=100, desc=position, leave=False, disable=not sys.stderr.isatty(), bar_format="{l_bar}{bar}")
    started = time.monotonic()
    while process.poll() is None and time.monotonic() - started < limit:
        time.sleep(0.05)
        progress = _last(said, "progress")
        if progress:
            bar.n = round(100 * progress[0] / max(progress[1], 1))
            bar.refresh()
    bar.close()
    ended = process.poll() is None
    if ended:
        _end(process)
    for reader in readers:
        reader.join(timeout=10)
    process.stdout.close()
    process.stderr.close()
    result = _last(said, "result")
    if result is not None:
        return dict(result)
    reached = _last(said, "progress")
    how_far = f"after {reached[0]:,} of {reached[1]:,} updates" if reached else "before its first update"
    if ended:
        return {"status": "timeout", "reason": f"ended after {limit:.0f} s, {how_far}"}
    last = errors[-1].strip()[:200] if errors else f"exit code {process.returncode}"
    if process.returncode == -9:
        last = "out of memory"
    return {"status": "failed", "reason": f"stopped {how_far}: {last}"}


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process that this run started, with the processes in its session."""
    try:
        os.killpg(process.pid, 15)
        process.wait(timeout=5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


def _last(lines: list[str], kind: str) -> Any:
    for line in reversed(list(lines)):
        if line.startswith("{"):
            found = json.loads(line)
            if kind in found:
                return found[kind]
    return None


def _root() -> Path:
    return Path(__file__).resolve().parents[2]


def unpacked(data: str | None, folder: Path) -> str | None:
    """Returns ``data``. If the folder contains a packed SNB data set (``*snb*.tar.gz``), unpacks it next to the
    results, links the folder's other files beside it, and returns that folder.
    """
    if data is None or not Path(data).is_dir():
        return data
    archives = sorted(Path(data).rglob("*snb*.tar.gz"))
    if not archives:
        return data
    target = folder / "data" / "given"
    if not target.exists():
        target.mkdir(parents=True)
        with tarfile.open(archives[0]) as archive:
            archive.extractall(target, filter="data")
        for other in Path(data).rglob("*"):
            if other.is_file() and other not in archives:
                place = target / other.relative_to(data)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(other.resolve())
    return str(target)
