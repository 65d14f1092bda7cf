"""Batches of one native call, stopped wherever the call can come back early, in each kind of program that has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crown.errors import UnusableStateError
from crown.programs.pipelines.native import NativeRuntime
from crown.stages.groups.batch import Batch
from crown.stages.groups.group import Groups
from crown.stages.kernels.groups import batch as group_batch
from tests import campaign
from tests.engine.stopping.calls import CALLS
from tests.engine.stopping.stops import (
    FAULTS_OF_CALLS,
    Fault,
    Injected,
    concerns,
    exception_at_line,
    exception_where_a_join_goes_on,
    small_blocks,
    stopped,
)
from tests.engine.stopping.subjects import Run, Subject

GRID = [(subject, fault) for subject in CALLS for fault in FAULTS_OF_CALLS if concerns(fault, subject)]
TIMES = 60


def names(grid: list[tuple[Subject, Fault]]) -> list[str]:
    return [f"{subject.name}-{fault.__name__}" for subject, fault in grid]


@pytest.mark.parametrize("subject", CALLS, ids=[subject.name for subject in CALLS])
def test_a_batch_is_one_call(subject: Subject, tmp_path: Path) -> None:
    run = Run(subject, 1, tmp_path)
    assert run.view._engine.pipeline is not None, run.view.explain(analyze=True)
    run.view.apply(run.changes)
    run.verify(applied=True)


@pytest.mark.parametrize(("subject", "fault"), GRID[::5], ids=names(GRID[::5]))
def test_a_stopped_call_leaves_the_view_as_it_was_or_goes_on(subject: Subject, fault: Fault, tmp_path: Path) -> None:
    stopped(subject, fault, 1, tmp_path, first=GRID.index((subject, fault)) * 0.7548776662)


@pytest.mark.slow
@pytest.mark.parametrize(("subject", "fault"), GRID, ids=names(GRID))
def test_ten_thousand_stops(subject: Subject, fault: Fault, tmp_path: Path) -> None:
    times = campaign.rounds(TIMES)
    assert sum(stopped(subject, fault, times, tmp_path, campaign.first_seed()).values()) == times


def test_a_join_that_goes_on_after_a_call_does_not_forget_what_was_applied(tmp_path: Path) -> None:
    subject = next(subject for subject in CALLS if subject.name == "Q12")
    states = list[str]()
    with small_blocks():
        while (state := exception_where_a_join_goes_on(Run(subject, 0, tmp_path), len(states))) is not None:
            states.append(state)
    assert len(states) > 8, "the call stops in the join"


def test_rows_that_no_call_has_read_are_not_part_of_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(next(subject for subject in CALLS if subject.name == "Q12"), 1, tmp_path)

    def strike(self: NativeRuntime) -> None:
        raise Injected

    with monkeypatch.context() as patch:
        patch.setattr(NativeRuntime, "_open_batch", strike)
        with pytest.raises(Injected):
            run.view.apply(run.changes)
    assert run.verify() == "before"


@pytest.mark.slow
@pytest.mark.parametrize("cells", [32, 1 << 13])
@pytest.mark.parametrize("subject", CALLS, ids=[subject.name for subject in CALLS])
def test_an_exception_at_any_line(subject: Subject, cells: int, tmp_path: Path) -> None:
    first, line = campaign.first_seed(), 0
    with small_blocks(cells):
        while exception_at_line(Run(subject, first, tmp_path), line) is not None:
            line += 1
    assert line > 100, "each line of a batch was one place"


@pytest.mark.parametrize("asked", [group_batch.NEEDS_ROOM, group_batch.DONE])
def test_groups_that_are_written_are_not_abandoned(asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception between a kernel and the next line: the last kernel has deleted the groups without rows, and to
    delete one again is to search the table for it without end."""
    run = Run(next(subject for subject in CALLS if subject.name == "Q3"), 1, tmp_path)
    run.view._engine.pipeline = None
    advanced, abandon = Groups._advanced, Groups.abandon
    struck, twice = list[int](), list[int]()

    def strike(self: Groups, batch: Batch) -> int:
        found = advanced(self, batch)
        if found == asked:
            struck.append(len(batch.touched))
            raise Injected
        return found

    def checked(self: Groups, handles: np.ndarray) -> None:
        deleted = np.setdiff1d(handles, self._every())
        twice.extend(deleted.tolist())
        abandon(self, np.setdiff1d(handles, deleted))

    monkeypatch.setattr(Groups, "_advanced", strike)
    monkeypatch.setattr(Groups, "abandon", checked)
    with pytest.raises(UnusableStateError):
        run.view.apply(run.expectation.arrow(run.database.everything(-1)))
    assert struck, "the batch is stopped"
    assert not twice, "groups are deleted again"
    assert run.verify() == "lost"
