"""Folders of state on each kind of storage."""

from __future__ import annotations

import pytest

from spark_jobs.storage.opening import folder_at


@pytest.fixture
def folder(place):
    """The same as a folder."""
    made = folder_at(place[0], "state", place[1])
    made.make()
    return made
