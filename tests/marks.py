"""Marks of single cases."""

from __future__ import annotations

import pytest


def slow(*values):
    """A case that goes the way of another one: part of the slow campaign only."""
    return pytest.param(*values, marks=pytest.mark.slow)


def seeds(few, most, first=0):
    """Seeds of random cases: ``few`` in every run, ``most`` in the slow campaign."""
    return [*range(first, first + few), *(slow(seed) for seed in range(first + few, first + most))]
