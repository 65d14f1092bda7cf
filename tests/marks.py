"""Marks of single cases."""

from __future__ import annotations

import pytest


def slow(*values):
    """A case that goes the way of another one: part of the slow campaign only."""
    return pytest.param(*values, marks=pytest.mark.slow)
