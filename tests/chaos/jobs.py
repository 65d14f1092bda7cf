"""Random SIGKILLs of a running job's processes: Python workers, their daemon, the JVM, the driver. Then a recompute.

The job reads one small file per batch. Whenever it ends by a kill it is started again on the same checkpoint; after the
last kill it goes on to its end, and ``--verify`` compares its whole output with a recompute of the query.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUERY = "SELECT x.src AS a, x.dst AS b, y.dst AS c FROM g x LEFT JOIN g y ON x.dst = y.src"
VICTIMS = ("worker", "daemon", "jvm", "driver")
PYTHON, JVM = "spark_jobs.cell.daemon", "SparkSubmit"
FILES, ROWS = 60, 400
LIMIT_S = 300.0


def inputs(folder: Path, rng: random.Random) -> None:
    """Writes the change files, one per batch."""
    folder.mkdir()
    for number in range(FILES):
        rows = [(rng.randrange(300), rng.randrange(300), rng.choice((1, 1, 1, -1))) for _ in range(ROWS)]
        path = folder / f"{number:03}.csv"
        path.write_text("src,dst,_weight\n" + "".join(f"{a},{b},{w}\n" for a, b, w in rows))
        os.utime(path, (1e9 + number, 1e9 + number))


def command(folder: Path) -> list[str]:
    """Returns ``crown submit`` over the files, in two cells."""
    program = "import sys; from tests.spark.test_kills import main; sys.exit(main(sys.argv[1:]))"
    words = [QUERY, "--schema", "g(src int64, dst int64)", "--input", f"g={folder / 'in'}:format=csv,files=1"]
    words += ["--output", str(folder / "out"), "--checkpoint", str(folder / "state"), "--cells", "2", "--cores", "2"]
    return [sys.executable, "-c", program, *words, "--sample", "0", "--verify"]


def campaign(folder: Path, kills: int, seed: int, seconds: float = math.inf) -> Counter[str]:
    """Kills so many processes, or what it can in ``seconds``; then the job goes on to its end.

    Returns how many of each kind. Raises AssertionError if the output is another than a recompute's.
    """
    rng, killed, ends = random.Random(seed), Counter[str](), time.monotonic() + seconds
    inputs(folder / "in", rng)
    for _ in range(4 * kills + 10):
        said, code = _life(folder, kills, killed, rng, ends)
        if code == 0:
            assert said[-1] == "equal", "\n".join(said[-20:])
            if sum(killed.values()) < kills and time.monotonic() < ends:  # it came to its end first: more work
                _more(folder / "in", rng)
                continue
            return killed
    raise AssertionError("the job never came to its end")


def _more(folder: Path, rng: random.Random) -> None:
    done = len(list(folder.iterdir()))
    for number in range(done, done + FILES // 2):
        path = folder / f"{number:03}.csv"
        path.write_text("src,dst,_weight\n" + "".join(f"{rng.randrange(300)},{i},1\n" for i in range(ROWS)))
        os.utime(path, (1e9 + number, 1e9 + number))


def _life(folder: Path, kills: int, killed: Counter[str], rng: random.Random, ends: float) -> tuple[list[str], int]:
    """One start of the job, with kills while there are some left, and time; returns what it said, and its exit code."""
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    log = folder / "said"
    with open(log, "w") as out, open(folder / "errors", "a") as errors:
        job = subprocess.Popen(
            command(folder), stdout=out, stderr=errors, start_new_session=True, env={**os.environ, "PYTHONPATH": path}
        )
        began = time.monotonic()
        while job.poll() is None:
            assert time.monotonic() - began < LIMIT_S, "the job hangs"
            time.sleep(rng.uniform(0.2, 1.5))
            if sum(killed.values()) < kills and time.monotonic() < ends and "batch" in log.read_text():
                kind = rng.choice(VICTIMS)
                found = _victims(job.pid, kind)
                if found and job.poll() is None:
                    with suppress(ProcessLookupError):
                        os.kill(rng.choice(found), signal.SIGKILL)
                        killed[kind] += 1
        _end_of(job.pid)
    return log.read_text().splitlines(), job.returncode


def _victims(driver: int, kind: str) -> list[int]:
    """Returns the processes of a kind. The daemon and the workers that it forks have the same command line."""
    if kind == "driver":
        return [driver]
    if kind == "jvm":
        return _processes(driver, JVM)
    jvms, python = set(_processes(driver, JVM)), _processes(driver, PYTHON)
    return [process for process in python if (_parent(process) in jvms) == (kind == "daemon")]


def _parent(process: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _processes(session: int, text: str) -> list[int]:
    """Returns the processes of a session whose command line has a text in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
                if os.getsid(int(entry.name)) == session and text in words:
                    found.append(int(entry.name))
            except (OSError, ProcessLookupError):
                continue
    return found


def _end_of(session: int) -> None:
    """Ends what is left of a job whose driver has died, as a cluster manager does."""
    for process in _processes(session, ""):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    time.sleep(0.2)
