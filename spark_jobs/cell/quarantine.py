"""Rows that a cell's engine rejects: late rows, violations of an enforced key, doubles that are too large.

They are written to the quarantine like rows that earlier checks reject, with a mark. They are not in the log, which
contains applied rows only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from crown.ingest.changes import CheckedBatch
from spark_jobs.storage.folder import Folder

_MARK = {"found_by": "state"}

Refused = Mapping[str, CheckedBatch]
"""Per relation a batch of which some rows are bad, with their positions and reasons."""


def noted(refused: Refused) -> list[str]:
    """Returns the bad rows as JSON texts, with relation and reason, sorted, so that the order of the rows does not
    matter.
    """
    return sorted(
        json.dumps({"relation": relation, "reason": reason, "data": data, **_MARK})
        for relation, batch in refused.items()
        for reason, data in zip(batch.bad.values(), batch.bad_rows, strict=True)
    )


def without(changes: Mapping[str, pa.Table], refused: Refused) -> dict[str, pa.Table]:
    """Returns changes without their bad rows, and without relations that have only bad rows. O(rows)."""
    rest = dict(changes)
    for name, batch in refused.items():
        (given,) = [relation for relation in changes if relation.lower() == name.lower()]
        keep = np.ones(len(changes[given]), bool)
        keep[list(batch.bad)] = False
        rest[given] = changes[given].filter(pa.array(keep))
    return {name: rows for name, rows in rest.items() if rows.num_rows}


def marked(folder: Folder) -> int:
    """Returns the number of rows in a stream's quarantine that were rejected by the state. O(rows in the
    quarantine).
    """
    operators = [folder / name for name in folder.folders()]
    lines = (line for operator in operators for file in operator.files() for line in operator.read(file).splitlines())
    return sum(_MARK.items() <= json.loads(line).items() for line in lines)
