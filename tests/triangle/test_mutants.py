"""Breaking any one rule makes an oracle fail: a sample here, the whole campaign in `tests.triangle.mutants`."""

from __future__ import annotations

import random

import pytest

from ivm_triangle.terms import program
from tests.triangle.mutants import PROGRAMS, TWIN_MUTANTS, main, patched, program_mutants, survives, twin_survives


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_right_program_survives_and_a_sample_of_wrong_ones_does_not(name):
    plan = program(*PROGRAMS[name])
    assert survives(plan)
    mutants = list(program_mutants(plan))
    for what, mutant in random.Random(name).sample(mutants, 6):
        assert not survives(mutant), what


def test_the_right_twin_survives():
    assert twin_survives()


@pytest.mark.parametrize("what", TWIN_MUTANTS)
def test_known_mistakes_of_rebalancing_and_enumeration_are_noticed(what):
    with patched(*TWIN_MUTANTS[what]):
        assert not twin_survives()


@pytest.mark.slow
def test_no_mutant_survives():
    assert main() == 0
