"""``plan.json`` of an operator: the plan of its cells, for readers of the checkpoint.

``meta.json`` decides which job may continue the state; it contains the fingerprint of the plan, not the plan. The first
cell that runs writes the plan of the cells beside it, with a checksum. A file whose fingerprint differs from
``meta.json`` is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError
from plans.program import Program
from spark_jobs.errors import CheckpointError, DamagedStateError
from spark_jobs.log.meta import checksum_of
from spark_jobs.storage.folder import Folder

NAME = "plan.json"
_WORDS = ("fingerprint", "program", "on_missing", "whole")


_seen: set[tuple[str, str]] = set()
"""Places that this process has checked already, with the fingerprint. A worker does not live long."""


@dataclass(frozen=True)
class KeptPlan:
    """The plan of an operator's cells: the program of a cell, and what it does with a delete that finds no row.

    ``whole``: the program that was cut into these cells, None if the operator is not the first of its query.
    """

    program: Program
    on_missing: str
    whole: Program | None = None


def keep_plan(
    operator: Folder,
    *,
    fingerprint: str,
    program: str,
    on_missing: str,
    whole: str | None = None,
) -> None:
    """Writes ``plan.json`` of an operator if it does not exist; ``whole``: see ``KeptPlan``."""
    here = operator.at(NAME), fingerprint
    if here in _seen:
        return
    stored = dict(zip(_WORDS, (fingerprint, program, on_missing, whole), strict=True))
    data = json.dumps({"checksum": checksum_of(stored), **stored}).encode()
    try:
        operator.create(NAME, data)
    except OSError as error:
        raise CheckpointError(f"cannot write {operator.at(NAME)}: {error.strerror}") from None
    _seen.add(here)


def kept_plan(operator: Folder, fingerprint: str) -> KeptPlan:
    """Returns the plan of an operator's cells; ``fingerprint``: the one in ``meta.json``.

    Raises :class:`CheckpointError` if there is no file; :class:`DamagedStateError` if the file is not as it was
    written.
    """
    try:
        stored: dict[str, Any] = json.loads(operator.read(NAME))
        checksum = stored.pop("checksum")
        if checksum != checksum_of(stored) or stored["fingerprint"] != fingerprint:
            raise ValueError
        whole = None if stored["whole"] is None else Program.from_json(stored["whole"])
        return KeptPlan(Program.from_json(stored["program"]), str(stored["on_missing"]), whole)
    except FileNotFoundError:
        raise CheckpointError(
            f"the plan of the cells in {operator} is not known: {operator.at(NAME)} is missing. Run the job for one "
            "batch, which writes the file again, then read the state"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PlanError):
        raise DamagedStateError(
            f"{operator.at(NAME)} is damaged, or belongs to another query: delete it, and run the job for one batch, "
            "which writes it again"
        ) from None
