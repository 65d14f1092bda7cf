"""kill -9: at every call of the system that makes something durable, and at any moment. Oracle: a recompute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import crown
from tests.durable.streams import QUERIES, contents, recomputed
from tests.durable.writers import ENVIRONMENT, ROOT, deaths
from tests.marks import slow


@pytest.mark.parametrize(("query", "how"), [slow("join", "before"), ("groups", "half"), slow("join", "after")])
def test_a_process_may_die_at_any_call_of_the_system(query: str, how: str) -> None:
    command = [sys.executable, "-m", "tests.durable.crashes", query, how, "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT, env=ENVIRONMENT)
    assert "processes died, and nothing was lost" in done.stdout, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) > 15


@pytest.mark.filterwarnings("ignore::crown.errors.RecoveryWarning")
@pytest.mark.parametrize(("query", "times"), [slow("join", 3), slow("groups", 3), ("call", 3), slow("call", 100)])
def test_a_process_may_die_at_any_moment(query: str, times: int, tmp_path: Path) -> None:
    folder, known = tmp_path / "v", 0
    for first, last in deaths(times, "view", str(folder), QUERIES[query]):
        assert first in (known + 1, known + 2)
        with crown.open(None, folder) as view:
            assert view._engine.pipeline is not None
            assert last <= view.batches <= last + 1
            assert contents(view) == recomputed(QUERIES[query], 9, view.batches)
            view.check_invariants()
            known = view.batches
    assert known > 10
