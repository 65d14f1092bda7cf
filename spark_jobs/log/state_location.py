"""The places of a job's files: Spark's checkpoint, and the state, inside it or elsewhere.

A checkpoint whose state is elsewhere says where, in ``crown/elsewhere.json``; so it is not taken for one that has none,
and is found by its place in the checkpoint.

A state that was cut anew (``spark_jobs.recell``) is in a folder of its own beside the one before, and ``current.json``
says which of them counts. That file is written in one step, so one of them does, whole, whatever happens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_jobs.errors import CheckpointError, FolderError
from spark_jobs.folders import unclaimed
from spark_jobs.log.history import stream_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import folder_at, ready

HERE = "crown"
_ELSEWHERE = "elsewhere.json"
HANDOVER = "handover.json"
"""Where feeds were when a load from them began, see ``spark_jobs.feeds.handover``."""
ROLLBACK = "rollback.json"
"""That the stream is going back to an earlier batch, see ``spark_jobs.job.rollback``."""
_OUTSIDE = "outside.json"
QUARANTINES, TABLES = "quarantines", "tables"
"""What is noted of a stream in ``outside.json``: folders outside of its checkpoint into which it writes."""
CURRENT = "current.json"
_CUT_ANEW = re.compile(r"cells-[0-9]{1,9}-after-[0-9]{1,18}(-[0-9]{1,9})?")

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Whereabouts:
    """``checkpoint``: the folder of Spark's checkpoint; ``root``: the folder of the state; ``home``: the folder that
    was given for it, in which ``root`` is if the state was cut anew."""

    checkpoint: Folder
    root: Folder
    home: Folder

    @property
    def quarantine(self) -> Folder:
        """Returns where bad rows are set aside, unless another folder is named."""
        return self.checkpoint / "quarantine"

    def stored(self, operator: str) -> tuple[Folder | None, bool]:
        """Returns the state that a stream on this checkpoint would go on with, and whether that is certain.

        Certain if Spark keeps its own metadata in the checkpoint: that names the stream. Otherwise the only state there
        is.
        """
        stream = stream_of(self.checkpoint)
        if stream is not None:
            return self.root / stream / operator, True
        states = self.states(operator)
        return (states[0], False) if len(states) == 1 else (None, False)

    def states(self, operator: str) -> list[Folder]:
        """Returns the folders with state of an operator: of all streams, and of a backfill, which is ``backfill``."""
        try:
            found = [self.root / name / operator for name in sorted(self.root.folders())]
            return [state for state in found if state.has("meta.json")]
        except OSError as error:
            raise CheckpointError(f"cannot read the state in {self.root}: {error.strerror}") from None

    def loaded(self, operator: str) -> None:
        """Raises :class:`CheckpointError` if the stream is to go on after a load that has not been made."""
        try:
            if (self.checkpoint / HERE).has(HANDOVER) and not self.states(operator):
                raise CheckpointError(
                    f"the checkpoint {self.checkpoint} hands over from a load to the stream, and nothing was loaded: "
                    "run bulk_load with it to its end first"
                )
        except OSError as error:
            raise CheckpointError(f"cannot read {self.checkpoint / HERE}: {error.strerror}") from None

    def rolling_back(self) -> dict[str, int] | None:
        """Returns the batches ``to`` which and ``from`` which the stream is going back; None if it is not."""
        remedy = "put it back from a copy"
        return _said(self.checkpoint / HERE, ROLLBACK, lambda found: {"to": found["to"], "from": found["from"]}, remedy)

    def unfinished(self, batch: int) -> CheckpointError:
        """Returns the error for a stream that is going back to a batch, which was not finished."""
        return CheckpointError(
            f"the stream of {self.checkpoint} was to go back to batch {batch}, which was not finished: run "
            f"`crown state {self.checkpoint} --rollback-to {batch}` again, with the same --into"
        )

    def demand_settled(self) -> None:
        """Raises :class:`CheckpointError` if the stream is going back to an earlier batch."""
        begun = self.rolling_back()
        if begun is not None:
            raise self.unfinished(begun["to"])

    def claim(self) -> None:
        """Sees that both folders can be written and no other process holds the checkpoint; then notes in the checkpoint
        where the state is.

        Raises :class:`FolderError` or :class:`CheckpointError`.
        """
        ready(self.checkpoint, "checkpoint")
        self.demand_settled()
        if isinstance(self.checkpoint, LocalFolder):
            unclaimed(self.checkpoint.path)
        if self.home != self.checkpoint / HERE:
            ready(self.home, "state")
            self._note()

    def outside(self, kind: str) -> list[str]:
        """Returns the folders of a kind (``QUARANTINES``, ``TABLES``) into which the stream writes."""
        remedy = "put it back from a copy, or delete it and name its tables yourself where the stream is to go back"
        return _said(self.checkpoint / HERE, _OUTSIDE, lambda found: list(found.get(kind, [])), remedy) or []

    def writes_to(self, kind: str, folder: str) -> None:
        """Notes in the checkpoint that the stream writes into a folder."""
        here, known = self.checkpoint / HERE, {of: self.outside(of) for of in (QUARANTINES, TABLES)}
        if folder in known[kind]:
            return
        known[kind].append(folder)
        try:
            here.make()
            here.replace(_OUTSIDE, json.dumps(known).encode())
        except OSError as error:
            raise CheckpointError(f"cannot write {here.at(_OUTSIDE)}: {error.strerror}") from None

    def _note(self) -> None:
        here, said = self.checkpoint / HERE, json.dumps({"state": str(self.home)}).encode()
        try:
            here.make()
            here.create(_ELSEWHERE, said)
        except OSError as error:
            raise CheckpointError(f"cannot write {here.at(_ELSEWHERE)}: {error.strerror}") from None


def located(
    checkpoint: str, state: str | None, options: Mapping[str, str] | None = None, spool: str | None = None
) -> Whereabouts:
    """Returns where the state of a checkpoint is, as it was given, or as the checkpoint says.

    Raises :class:`FolderError` for what is no folder, and :class:`CheckpointError` if the checkpoint says another place
    than the one given.
    """
    folder = folder_at(checkpoint, "checkpoint", options, spool)
    root = folder / HERE if state is None else folder_at(state, "state", options, spool)
    noted = elsewhere(folder)
    if noted is not None and noted != str(root):
        if state is not None:
            raise CheckpointError(
                f"the state of the checkpoint {folder} is in {noted}, but state= says {root}: give the one that has "
                "it, or begin with a new checkpoint"
            )
        root = folder_at(noted, "state", options, spool)
    if noted is None and state is not None and root != folder / HERE and _has_state(folder):
        raise CheckpointError(
            f"the state of the checkpoint {folder} is in it, but state= says {root}: leave out state=, or begin with a "
            "new checkpoint"
        )
    if root == folder:
        raise FolderError(f"state {root} is the checkpoint itself: leave out state=, or give a folder of its own")
    return Whereabouts(folder, current(root), root)


def current(home: Folder) -> Folder:
    """Returns the folder of the state that counts: ``home``, or the one in it that ``current.json`` names.

    Raises :class:`CheckpointError` if the file cannot be read, or names none.
    """
    remedy = 'put it back from a copy, or write into it the folder beside it that has the state: {"state": "cells-..."}'
    name = _said(home, CURRENT, lambda found: _CUT_ANEW.fullmatch(found["state"])[0], remedy)  # type: ignore[index]
    return home if name is None else home / name


def fresh(home: Folder, cells: int, batch: int) -> Folder:
    """Returns a folder in ``home`` that is not there yet, for a state cut into so many cells after a batch."""
    taken, name, number = set(home.folders()), f"cells-{cells}-after-{batch}", 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return home / found


def make_current(home: Folder, state: Folder) -> None:
    """Lets the folder ``state`` in ``home`` count, from the one write on that this is."""
    home.replace(CURRENT, json.dumps({"state": state.name}).encode())


def elsewhere(checkpoint: Folder) -> str | None:
    """Returns where the state of a checkpoint is, if the checkpoint says that it is not in it."""
    remedy = 'put it back from a copy, or write {"state": "<where it is>"}'
    return _said(checkpoint / HERE, _ELSEWHERE, lambda found: str(found["state"]), remedy)


def _said(folder: Folder, name: str, part: Callable[[Any], _Part], remedy: str) -> _Part | None:
    """Returns a part of what a file of JSON says; None if it is not there. Raises :class:`CheckpointError` if it cannot
    be read, or is damaged, with the remedy for that."""
    try:
        return part(json.loads(folder.read(name)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CheckpointError(f"cannot read {folder.at(name)}: {error.strerror}") from None
    except (ValueError, LookupError, AttributeError, TypeError):
        raise CheckpointError(f"{folder.at(name)} is damaged: {remedy}") from None


def _has_state(checkpoint: Folder) -> bool:
    try:
        return bool((checkpoint / HERE).folders())
    except OSError as error:
        raise CheckpointError(f"cannot read {checkpoint}: {error.strerror}") from None
