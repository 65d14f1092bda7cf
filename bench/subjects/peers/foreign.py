"""Engines that run in a process of their own: in another Python, because their dependencies conflict with this
project's, or without Python.

``make bench-peers`` creates one virtual environment per Python engine beside the project (``.venv-flink``,
``.venv-pathway``); the variables ``CROWN_BENCH_FLINK_PYTHON`` and ``CROWN_BENCH_PATHWAY_PYTHON`` name other
interpreters.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.cases.streams import Stream
from bench.cases.workloads import Loaded, load
from bench.spent import spent
from bench.subjects.subject import Progress, SkipError
from plans import Plan

STARTUP_S = 90.0
WARM_ROWS = 20_000  # updates at the beginning of a run that are warm-up: time counts after them
_HERE = Path(__file__).resolve().parent


def interpreter(module: str, name: str) -> str:
    """Returns the Python that has ``module``. Raises SkipError with the remedy if there is none."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    given = os.environ.get(f"CROWN_BENCH_{name.upper()}_PYTHON")
    beside = _HERE.parents[2] / f".venv-{name}" / "bin" / "python"
    if given:
        return given
    if beside.exists():
        return str(beside)
    raise SkipError(f"{name} is not installed (make bench-peers)")


def cell(
    spec: dict[str, Any], progress: Progress, job: Callable[[Loaded, str, Progress], Any], checks: int = 1
) -> dict[str, Any]:
    """Returns the result of a cell: first the check (``job`` with purpose ``check`` returns [count, checksum]), then
    the timed run (purpose ``time``: returns the result's fields).

    The first ``checks`` checkpoints are checked, each by a run from the beginning.
    """
    result: dict[str, Any] = {"status": "ok", "check": {"status": "not asked for"}}
    try:
        if spec["mode"] != "delta":
            raise SkipError(f"no mode {spec['mode']}")
        if spec.get("check"):
            expected = spec["check"]["expected"][:checks]
            whole = load(spec["workload"], spec.get("data"), spec["check"]["options"])
            for position, count, checksum in expected:
                with spent("check"):
                    found = job(whole.head(position), "check", progress)
                if list(found) != [count, checksum]:
                    reason = f"after {position:,} updates: rows and checksum {found}; DuckDB has {[count, checksum]}"
                    failed = {"status": "failed", "reason": reason}
                    return result | {"status": "wrong", "reason": reason, "check": failed}
            positions, rows = zip(*((row[0], row[1]) for row in expected), strict=True)
            result["check"] = {"status": "passed", "positions": list(positions), "rows": max(rows)}
        loaded = load(spec["workload"], spec.get("data"), spec.get("options"))
        result |= {"data": loaded.stream.title, "of": len(loaded.stream)}
        with spent("timed"):
            return result | job(loaded, "time", progress)
    except SkipError as error:
        return result | {"status": "skipped", "reason": str(error)}
    except ForeignError as error:
        return result | {"status": "failed", "reason": str(error)}


def one_join(loaded: Loaded) -> Plan:
    """Returns the plan of the workload. Raises SkipError if it is more than one join."""
    plan = loaded.program.plan
    if plan is None:
        raise SkipError("written for one join, not for what is grouped or is a bag")
    return plan


class ForeignError(Exception):
    """The other process ended without a result; the message is its last output."""


def converse(
    command: list[str], spec: dict[str, Any], limit: float, progress: Progress, one_core: bool = False
) -> tuple[dict[str, Any], int]:
    """Runs a command with ``spec`` as JSON on its standard input, on one core if ``one_core``. Returns its result and
    its peak memory.

    Raises ForeignError if it fails or takes longer than ``limit`` seconds.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    if one_core and hasattr(os, "sched_setaffinity"):
        # The process waits for its input, so the threads that it starts later stay on this core.
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
    process.stdin.write(json.dumps(spec))
    process.stdin.close()
    errors: list[str] = []
    reader = threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True)
    watch = threading.Timer(limit, _end, (process,))
    peak = [0]
    sampler = threading.Thread(target=_sample, args=(process, peak), daemon=True)
    for thread in (reader, watch, sampler):
        thread.start()
    result = None
    for line in process.stdout:
        if line.startswith("{"):
            message = json.loads(line)
            if "progress" in message:
                progress(*message["progress"])
            result = message.get("result", result)
    watch.cancel()
    process.wait()
    _end(process)
    process.stdout.close()
    reader.join(timeout=5)
    process.stderr.close()
    if result is None:
        raise ForeignError(_said(errors) or f"it ended with code {process.returncode}")
    return dict(result), peak[0]


def _said(errors: list[str]) -> str:
    """Returns the line with the error: the last cause of a Java trace, or the last line of any other output."""
    said = [row.strip().removeprefix(": ") for row in errors if row.strip() and not row.startswith("\t")]
    causes = [row.removeprefix("Caused by: ") for row in said if row.startswith("Caused by: ")]
    return [*said[-1:], *causes[-1:]][-1][:300] if said else ""


def script(python: str, name: str) -> list[str]:
    """Returns the command that runs a script of this package in another Python."""
    return [python, "-P", str(_HERE / name)]


def _sample(process: subprocess.Popen[str], peak: list[int]) -> None:
    """Tracks the resident memory of the process and its children. Samples often at first, because the process may end
    soon.
    """
    pause = 0.02
    while process.poll() is None:
        total = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == process.pid:  # its session
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        peak[0] = max(peak[0], total)
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the remaining processes of a session that this module started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def changelog(stream: Stream, folder: str) -> dict[str, Any]:
    """Writes the stream as one file per table in Debezium's JSON."""
    out = {}
    for number, (name, table) in enumerate(stream.tables.items()):
        path = Path(folder) / f"{name}.json"
        here = stream.relation == number
        rows = [json.dumps(row, default=str) for row in table.to_pylist()]
        with path.open("w") as file:
            for row, weight in zip(stream.row[here].tolist(), stream.weight[here].tolist(), strict=True):
                if weight > 0:
                    file.write(f'{{"before":null,"after":{rows[row]},"op":"c"}}\n')
                else:
                    file.write(f'{{"before":{rows[row]},"after":null,"op":"d"}}\n')
        out[name] = {"path": str(path)}
    return out


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Returns a folder for a changelog, removed afterwards."""
    return tempfile.TemporaryDirectory(prefix="crown-bench-")


def warm_rows(updates: int, preload: int = 0) -> int:
    """Returns the number of updates at the beginning of a run that are warm-up: after ``preload`` updates that are
    loaded first, as many as in a run of the others.
    """
    return preload + min(WARM_ROWS, (updates - preload) // 10)


def fields(warm: int, done: int, of: int, seconds: float, peak: int) -> dict[str, Any]:
    """Returns the fields of a result for a job in another process, which did updates ``warm`` to ``done`` in that time.

    Raises ForeignError if it did none after its warm-up.
    """
    if done <= warm or seconds <= 0:
        rate = f"{done / seconds:,.0f} updates/s until then" if seconds > 0 else "in no time"
        raise ForeignError(f"its warm-up was not over within its bound: {done:,} of {of:,} updates, {rate}")
    done -= warm
    of -= warm
    out: dict[str, Any] = {
        "warm_up_updates": warm,
        "of": of,
        "updates": done,
        "repeats": 1,
        "seconds": [round(seconds, 3)],
        "updates_per_s": done / seconds,
        "updates_per_s_median": done / seconds,
        "updates_per_s_all": [done / seconds],
        "rss_peak": peak,
    }
    if done < of:
        out |= {"status": "timeout", "reason": f"stopped after {seconds:.0f} s with {done:,} of {of:,} updates done"}
    return out
