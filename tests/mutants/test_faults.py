"""The maker of faults: what it changes and what it leaves alone; and a fault that a trial puts in is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.mutants.__main__ import all_faults, equivalent
from tests.mutants.faults import faults
from tests.mutants.rooms import ROOMS, ROOT

SOURCE = '''
LIMIT = 3


class Box:
    size: int = 4

    def put(self, rows: list[int], most: int = 5) -> bool:
        """Adds up to 7 rows."""
        if not rows and self.open or len(rows) > most:
            raise ValueError(f"{len(rows) + 1} rows")
        for row, _ in zip(rows, rows, strict=True):
            if (row) is None:
                continue
            self.size += row * 2
            self.seen.append(row)
        return self.size < 9 if rows else True
'''


def test_each_fault_is_one_change_inside_a_function() -> None:
    found = faults("box.py", SOURCE)
    assert [(fault.line, fault.before, fault.after) for fault in found] == [
        (10, "not ", ""),
        (10, "not rows and self.open or len(rows) > most", "not (not rows and self.open or len(rows) > most)"),
        (10, "and", "or"),
        (10, "or", "and"),
        (10, ">", ">="),
        (13, "is", "is not"),
        (14, "continue", "break"),
        (15, "self.size += row * 2", "pass"),
        (15, "*", "+"),
        (15, "2", "3"),
        (16, "self.seen.append(row)", "pass"),
        (17, "<", "<="),
        (17, "9", "10"),
        (17, "rows", "not (rows)"),
        (17, "True", "False"),
    ]
    assert {(fault.function, fault.first) for fault in found} == {("Box.put", 8)}
    for fault in found:
        changed = fault.applied(SOURCE)
        compile(changed, "box.py", "exec")
        pairs = zip(SOURCE.splitlines(), changed.splitlines(), strict=True)
        assert [i for i, (before, after) in enumerate(pairs, 1) if before != after] == [fault.line]


def test_every_fault_of_the_product_has_a_name_of_its_own_and_those_that_are_excused_are_there() -> None:
    names = [fault.name for room in ROOMS.values() for _, fault in all_faults(room)]
    assert len(names) == len(set(names)) > 10_000
    excused = equivalent()
    assert set(excused) <= set(names), "their functions changed: try them again"
    assert all(excused.values())


PLANS = "tests/plans/lowering/test_programs.py::test_"
TRIAL = f"""
from tests.mutants.__main__ import all_faults
from tests.mutants.rooms import ROOMS
from tests.mutants.trial import trial
import plans.lowering.lower
from pathlib import Path
import sys

tests = ["{PLANS}one_relation_needs_no_join_stage", "{PLANS}group_by_without_aggregates_is_distinct"]
folder = Path(sys.argv[1])
print(trial("", None, tests, 60, folder / "without"))
for file, fault in all_faults(ROOMS["rules"]):
    if file == "plans/lowering/lower.py" and fault.before == "stage_of(relation, stages)":
        print(trial(file, fault, tests, 60, folder / fault.name))
        break
"""


def test_a_trial_notices_a_fault_and_leaves_the_product_as_it_is(tmp_path: Path) -> None:
    before = (ROOT / "plans/lowering/lower.py").read_text()
    command = [sys.executable, "-c", TRIAL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["survived", "died"], done.stderr[-2000:]
    assert "2 passed" in (tmp_path / "without").read_text()
    assert (ROOT / "plans/lowering/lower.py").read_text() == before
