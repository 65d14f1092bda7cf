"""``plan.json`` of an operator: what its cells run, for readers that have the checkpoint and not the query.

``meta.json`` decides who may go on; it names the plan and does not hold it. The plan of a cell's engine is written
beside it by whichever cell comes first, and read with its checksum. A file of another plan than ``meta.json`` names is
refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError
from plans.program import Maintainable, maintainable
from spark_jobs.errors import CheckpointError, DamagedStateError
from spark_jobs.log.meta import checksum_of
from spark_jobs.storage.folder import Folder

_NAME = "plan.json"
_WORDS = ("fingerprint", "plan", "on_missing", "query_engine", "whole")


_seen: set[tuple[str, str]] = set()
"""Where this process has seen to it already, with the fingerprint. A worker does not live long."""


@dataclass(frozen=True)
class KeptPlan:
    """What the cells of an operator run: the plan of a cell, and what a delete does that finds nothing.

    ``whole``: the plan or program that was cut into these cells, None if it is not known: an older version wrote it, or
    the operator is not the first of its query.
    """

    plan: Maintainable
    on_missing: str
    whole: Maintainable | None = None


def keep_plan(
    operator: Folder,
    *,
    fingerprint: str,
    plan: str,
    on_missing: str,
    query_engine: bool = True,
    whole: str | None = None,
) -> None:
    """Writes ``plan.json`` of an operator if it is not there, or lacks what ``whole`` says, because it is older.

    ``query_engine``: False if something else runs there; ``whole``: see ``KeptPlan``.
    """
    here = operator.at(_NAME), fingerprint
    if here in _seen:
        return
    said = dict(zip(_WORDS, (fingerprint, plan, on_missing, query_engine, whole), strict=True))
    data = json.dumps({"checksum": checksum_of(said), **said}).encode()
    try:
        if not operator.create(_NAME, data) and whole is not None and _is_older(operator):
            operator.replace(_NAME, data)
    except OSError as error:
        raise CheckpointError(f"cannot write {operator.at(_NAME)}: {error.strerror}") from None
    _seen.add(here)


def _is_older(operator: Folder) -> bool:
    """Returns True if a version wrote the file that did not know ``whole``."""
    try:
        return "whole" not in json.loads(operator.read(_NAME))
    except ValueError:
        return False  # whoever reads it will say that it is damaged


def kept_plan(operator: Folder, fingerprint: str) -> KeptPlan:
    """Returns the plan of an operator's cells; ``fingerprint``: the one in ``meta.json``.

    Raises :class:`CheckpointError` if it was never written, or is of no query; :class:`DamagedStateError` if the file
    is not what was written.
    """
    try:
        said: dict[str, Any] = json.loads(operator.read(_NAME))
        checksum = said.pop("checksum")
        if checksum != checksum_of(said) or said["fingerprint"] != fingerprint:
            raise ValueError
        if not said["query_engine"]:
            raise CheckpointError(f"the state in {operator} is a count, not the rows of a query: read what was written")
        whole = said.get("whole")
        whole = None if whole is None else maintainable(whole)
        return KeptPlan(maintainable(said["plan"]), str(said["on_missing"]), whole)
    except FileNotFoundError:
        raise CheckpointError(
            f"{operator} does not say which plan its cells run, because an older version wrote it: run the job for one "
            "batch with this one, then read it"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PlanError):
        raise DamagedStateError(
            f"{operator.at(_NAME)} is damaged, or of another query: delete it, and run the job for one batch, which "
            "writes it again"
        ) from None
