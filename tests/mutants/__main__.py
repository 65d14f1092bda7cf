"""A campaign: faults are drawn, tried one after the other, and counted by module.

    python -m tests.mutants --sample 300 --seed 1     # a third in each room; what was tried is not tried again
    python -m tests.mutants --room rules              # all faults of a room
    python -m tests.mutants --again --budget 60       # what survived once more, with a minute of tests for each
    python -m tests.mutants --report                  # what is known so far
    python -m tests.mutants --map                     # ask anew which tests call which functions: 5 min for the rules

Everything it finds is in ``out/mutants``: a line for each fault in ``faults.jsonl``, and in ``logs`` how a test failed.
A fault that survives is a test that is missing, or stands in ``equivalent.toml`` with the reason why no test
can notice it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.mutants.faults import Fault, faults
from tests.mutants.rooms import ROOMS, ROOT, Room

OUT = ROOT / "out" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
SURVIVED = ("survived", "is called by no test")
Drawn = tuple[str, Fault]  # file and fault


def all_faults(room: Room) -> list[Drawn]:
    """Returns all faults of a room, with their files."""
    return [(file, fault) for file in room.files for fault in faults(file, (ROOT / file).read_text())]


def drawn_of(room: Room, number: int | None, seed: int) -> list[Drawn]:
    """Returns so many faults of a room, in no order; a seed draws the same ones as long as their functions stay."""

    def place(one: Drawn) -> str:
        return hashlib.sha256(f"{seed} {one[1].name}".encode()).hexdigest()

    return sorted(all_faults(room), key=place)[:number]


def equivalent() -> dict[str, str]:
    """Returns why faults cannot be noticed, by name."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("fault", [])
    return {one["name"]: one["reason"] for one in listed}


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the lines that a campaign wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Map:
    """Which tests call a function, and how long they take, with kernels as plain Python or compiled."""

    def __init__(self, room: Room) -> None:
        self.path, self.tests_of = OUT / f"{room.name}.json", room.tests
        self.environment = {**_environment(room), "CROWN_COVERING": str(self.path)}

    def make(self) -> None:
        """Runs the tests and writes down what they call."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A test that is ended may have frames without a line, at which pytest's own tracebacks fail.
        options = ["-q", "--tb=native", "-p", "tests.mutants.covering", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command = [sys.executable, "-m", "pytest", *options, *(f"tests/{folder}" for folder in self.tests_of)]
        with self.path.with_suffix(".log").open("w") as log:
            ended = subprocess.run(command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, check=False)
        if ended.returncode not in (0, 1):  # 1: some tests failed, and are not asked
            self.path.unlink(missing_ok=True)
            raise SystemExit(f"the tests did not run to their end: see {self.path.with_suffix('.log')}")

    def read(self) -> None:
        """Reads what was written down."""
        found = json.loads(self.path.read_text())
        self.seconds = {test: seconds for test, (seconds, _) in found["tests"].items()}
        self.tests: dict[str, list[str]] = defaultdict(list)
        for test, (_, numbers) in found["tests"].items():
            for number in numbers:
                self.tests[found["functions"][number]].append(test)

    def chosen(self, function: str, budget: float) -> list[str]:
        """Returns tests that call a function: by turns one of each file, short ones first, as long as time allows."""
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(self.tests.get(function, ()), key=lambda test: (self.seconds[test], test)):
            by_file[test.partition("::")[0]].append(test)
        queues = sorted(by_file.values(), key=lambda tests: self.seconds[tests[0]])
        found: list[str] = []
        spent = 0.0
        for turn in range(max(map(len, queues), default=0)):
            for queue in queues:
                if turn < len(queue) and spent + self.seconds[queue[turn]] <= budget:
                    found.append(queue[turn])
                    spent += self.seconds[queue[turn]]
        return found


def try_room(room: Room, drawn: list[Drawn], budget: float) -> None:
    """Tries faults in this process, which runs kernels as the room says; each is a line of ``faults.jsonl``."""
    from tests.mutants import trial

    known = Map(room)
    known.read()
    trial.import_product()
    logs = OUT / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    whole = known.chosen(f"{drawn[0][0]}:{drawn[0][1].function}", 5.0)
    if whole and trial.trial("", None, whole, 300, logs / "none") != trial.SURVIVED:
        raise SystemExit(f"tests fail without any fault: see {logs / 'none'}")
    with (OUT / "faults.jsonl").open("a") as file:
        for number, (path, fault) in enumerate(drawn, 1):
            tests = known.chosen(f"{path}:{fault.function}", budget)
            start = time.monotonic()
            end = "is called by no test"
            if tests:
                expected = sum(known.seconds[test] for test in tests)
                end = trial.trial(path, fault, tests, 30 + 5 * expected, logs / fault.name)
            took = round(time.monotonic() - start, 1)
            line = {
                "name": fault.name, "room": room.name, "file": path, "line": fault.line, "function": fault.function,
                "before": fault.before, "after": fault.after, "end": end, "tests": len(tests), "seconds": took,
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{room.name} {number}/{len(drawn)} {end} ({took} s): {path}:{fault.line} {fault.before[:40]!r}"
                  f" -> {fault.after[:40]!r}", flush=True)  # fmt: skip


def report(names: set[str] | None = None) -> None:
    """Prints the share that died by module; and each survivor that is not listed as one that no test can notice."""
    excused = equivalent()
    last = {one["name"]: one for one in read(OUT / "faults.jsonl") if names is None or one["name"] in names}
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for one in last.values():
        end = one["end"]
        kind = "left out" if end == "could not be tried" else "died" if end in ("died", "took too long") else "survived"
        kind = "excused" if kind == "survived" and one["name"] in excused else kind
        for group in (one["file"], f"all {one['room']}", "all"):
            counted[group][kind] += 1
    for group, kinds in sorted(counted.items()):
        tried = kinds["died"] + kinds["survived"]
        share = f"{kinds['died'] / tried:.0%}" if tried else "-"
        print(f"{group:45} {share:>5} of {tried:4}  excused {kinds['excused']}, left out {kinds['left out']}")
    for one in sorted(last.values(), key=lambda one: (one["file"], one["line"])):
        if one["end"] in SURVIVED and one["name"] not in excused:
            print(f"{one['end']}: {one['name']} {one['file']}:{one['line']} {one['before']!r} -> {one['after']!r}")


def _environment(room: Room) -> dict[str, str]:
    return {**os.environ, "NUMBA_DISABLE_JIT": "1" if room.plain else "0"}


def main() -> None:
    """Draws, and has each room tried by a process that runs kernels as the room says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--room", choices=ROOMS, action="append", help="this room only")
    parser.add_argument("--sample", type=int, help="so many faults, the same number in each room")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of tests for a fault that survives")
    parser.add_argument("--again", action="store_true", help="try once more what survived, with more budget")
    parser.add_argument("--map", action="store_true", help="ask anew which tests call which functions")
    parser.add_argument("--report", action="store_true", help="print what is known so far, and try nothing")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # the process of one room
    given = parser.parse_args()
    if given.report:
        return report()
    rooms = [ROOMS[name] for name in given.room or ROOMS]
    last = {one["name"]: one["end"] for one in read(OUT / "faults.jsonl")}
    tried = {name for name, end in last.items() if not (given.again and end in SURVIVED)}
    names: set[str] = set()
    if given.map:
        for room in rooms:
            Map(room).path.unlink(missing_ok=True)
    for room in rooms:
        number = given.sample and given.sample // len(rooms)
        drawn = drawn_of(room, number, given.seed)
        names |= {fault.name for _, fault in drawn}
        left = [one for one in drawn if one[1].name not in tried]
        if given.here:
            try_room(room, left, given.budget)
            continue
        if (given.map or left) and not Map(room).path.exists():
            Map(room).make()
        if left:
            sample = ["--sample", str(number)] if number else []
            command = [sys.executable, "-m", "tests.mutants", "--here", "--room", room.name, *sample]
            command += ["--seed", str(given.seed), "--budget", str(given.budget), *["--again"][: given.again]]
            subprocess.run(command, env=_environment(room), cwd=ROOT, check=True)
    if not given.here:
        report(names)
    return None


if __name__ == "__main__":
    main()
