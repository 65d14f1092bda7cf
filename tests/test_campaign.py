"""The size of the slow campaign is what was asked for, and nonsense is refused before a test runs."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import campaign, marks

ROOT = Path(__file__).parent.parent
SMALL = "tests/plans/test_isomorphism.py"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (campaign.EXAMPLES, campaign.SEED):
        monkeypatch.delenv(variable, raising=False)


def test_seeds_and_rounds_go_with_the_number_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (campaign.examples(), campaign.rounds(90), campaign.first_seed()) == (campaign.DEFAULT, 90, 0)
    assert marks.seeds(2, 10) == [0, 1]
    monkeypatch.setenv(campaign.SEED, "7000")
    monkeypatch.setenv(campaign.EXAMPLES, str(2 * campaign.DEFAULT))
    assert campaign.rounds(90) == 180
    first, second, *others = marks.seeds(2, 10)
    assert (first, second) == (0, 1)
    assert [case.values[0] for case in others] == list(range(7002, 7022))
    assert {mark.name for case in others for mark in case.marks} == {"slow"}
    monkeypatch.setenv(campaign.EXAMPLES, "1")
    assert campaign.rounds(90) == 1


@pytest.mark.parametrize("said", ["many", "-3", "1e3", "2.5", "0", "1" * 12, "²"])
def test_a_size_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(campaign.EXAMPLES, said)
    with pytest.raises(ValueError, match=rf"^{campaign.EXAMPLES} is .*: say "):
        campaign.examples()


def collected(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "slow", "--hypothesis-profile=campaign"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", SMALL],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_campaign_draws_its_first_seed_and_says_how_to_repeat_it() -> None:
    first = collected(**{campaign.EXAMPLES: "3"}).stdout.splitlines()
    *tests, _, said, _ = first
    assert said.startswith("campaign of 3 examples per property; the same seeds again: set "), first
    variable, seed = said.split()[-1].split("=")
    assert int(seed) >= 10_000
    assert [test.split("[")[1] for test in tests] == [f"{int(seed) + 8 + number}]" for number in range(5)]
    again = collected(**{campaign.EXAMPLES: "3", variable: seed}).stdout.splitlines()
    assert again[:5] == tests


def test_a_campaign_of_no_sensible_size_does_not_begin() -> None:
    told = collected(**{campaign.EXAMPLES: "lots"})
    assert told.returncode == pytest.ExitCode.USAGE_ERROR
    assert told.stderr.strip() == (
        "ERROR: CROWN_TEST_EXAMPLES is 'lots', which is no whole number below a billion: say for example "
        "CROWN_TEST_EXAMPLES=300, or `make test-slow EXAMPLES=300`"
    )


def test_a_law_of_every_case_names_all_cases_that_fail(tmp_path: Path) -> None:
    asked = []

    @marks.every([("a", 1), ("b", 2), ("c", 3)])
    def test_it(name: str, number: int, folder: Path) -> None:
        asked.append((name, number, folder))
        assert number == 2, name

    assert list(inspect.signature(test_it).parameters) == ["folder"]
    with pytest.raises(AssertionError, match="a") as caught:
        test_it(folder=tmp_path)
    assert asked == [("a", 1, tmp_path), ("b", 2, tmp_path), ("c", 3, tmp_path)]
    assert caught.value.__notes__ == ["2 of 3 cases fail, this is the first:\n  'a', 1\n  'c', 3"]
    with pytest.raises(AssertionError, match="about nothing"):
        marks.every([])
