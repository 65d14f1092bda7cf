"""The time of a batch, for queries that read the clock: a change of the clock's one row, like any other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crown.ingest.changes import relations_of
from plans.clock import KEY, NAME, NOW


def with_time(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the changes of a batch with the time at which it takes place: what they say under ``now()``, or else what
    the clock of the machine says. Raises ChangeError for changes that are no mapping."""
    given = relations_of(changes)
    name = next((name for name in given if name.lower() == NAME), NAME)
    time = given.get(name)
    if time is None:
        time = datetime.now(UTC)
    if isinstance(time, (datetime, np.datetime64)):
        return {**given, name: [{KEY: 0, NOW: time}]}
    return given
