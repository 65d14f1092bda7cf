"""Marks of single cases."""

from __future__ import annotations

import pytest

from tests import campaign


def slow(*values):
    """A case that goes the way of another one: part of the slow campaign only."""
    return pytest.param(*values, marks=pytest.mark.slow)


def seeds(few, more, first=0):
    """Seeds of random cases: ``few`` in every run; in the campaign, ``more`` others if it has its default size."""
    start = first + few + campaign.first_seed()
    others = range(start, start + campaign.rounds(more)) if campaign.is_running() else ()
    return [*range(first, first + few), *(slow(seed) for seed in others)]
