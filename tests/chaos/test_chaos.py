"""A slice of the fault campaign: ``make chaos`` is the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import __main__ as campaign
from tests.chaos import cells, jobs
from tests.marks import slow


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_streams_with_a_fault_in_every_batch_deliver_what_an_engine_in_memory_does(tmp_path: Path, seed: int) -> None:
    tally = cells.Campaign(tmp_path, seed).run()
    assert sum(tally.injected.values()) >= cells.BATCHES // 2
    assert sum(tally.survived.values()) + sum(tally.refused.values()) == sum(tally.injected.values())
    assert campaign.table(tally)[-1].startswith("| **all** |")


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_whose_processes_are_killed_comes_to_its_end(tmp_path: Path) -> None:
    killed = jobs.campaign(tmp_path, 12, seed=1)
    assert sum(killed.values()) >= 12
