"""Adds the time of a batch to its changes, for queries that read the clock, as the row of a one-row relation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crown.ingest.changes import relations_of
from plans.time.windows import KEY, NAME, NOW


def with_time(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the changes of a batch with its time: the time given under ``now()``, or else the time of the machine's
    clock. Raises ChangeError if ``changes`` is not a mapping."""
    given = relations_of(changes)
    name = next((name for name in given if name.lower() == NAME), NAME)
    time = given.get(name)
    if time is None:
        time = datetime.now(UTC)
    if isinstance(time, (datetime, np.datetime64)):
        return {**given, name: [{KEY: 0, NOW: time}]}
    return given
