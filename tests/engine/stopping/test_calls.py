"""Batches of one native call, stopped wherever the call can come back early, in each kind of program that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import campaign
from tests.engine.stopping.calls import CALLS
from tests.engine.stopping.stops import FAULTS_OF_CALLS, Fault, concerns, stopped
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
