"""The places of a job's files: Spark's checkpoint, and the state, inside it or elsewhere.

If the state is elsewhere, the checkpoint stores its place in ``crown/elsewhere.json``. So the checkpoint does not look
like one without state, and the state is found from the checkpoint.

A recut state (``spark_jobs.recell``) is in a folder of its own beside the one before, and ``current.json`` names the
current one. That file is written atomically, so one of the states is current, and complete, even after a crash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_jobs.errors import ANEW, CheckpointError, FolderError
from spark_jobs.folders import unclaimed
from spark_jobs.log.history import stream_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import ensure_writable, folder_at

HERE = "crown"
_ELSEWHERE = "elsewhere.json"
HANDOVER = "handover.json"
"""The positions of feeds when a load from them began, see ``spark_jobs.feeds.handover``."""
ROLLBACK = "rollback.json"
"""Exists while the stream is being rolled back, see ``spark_jobs.job.rollback``."""
_OUTSIDE = "outside.json"
QUARANTINES, TABLES = "quarantines", "tables"
"""The keys of ``outside.json``: folders outside of the checkpoint into which the stream writes."""
CURRENT = "current.json"
_RECELLED = re.compile(r"cells-[0-9]{1,9}-after-[0-9]{1,18}(-[0-9]{1,9})?")

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Whereabouts:
    """``checkpoint``: the folder of Spark's checkpoint; ``root``: the folder of the state; ``home``: the folder that
    was given for the state, which contains ``root`` if the state was recut.
    """

    checkpoint: Folder
    root: Folder
    home: Folder

    @property
    def quarantine(self) -> Folder:
        """Returns the default folder of bad rows."""
        return self.checkpoint / "quarantine"

    def stored(self, operator: str) -> tuple[Folder | None, bool]:
        """Returns the state that a stream on this checkpoint would continue, and whether that is certain.

        It is certain if Spark keeps its own metadata, which names the stream, in the checkpoint. Otherwise the only
        existing state is returned.
        """
        stream = stream_of(self.checkpoint)
        if stream is not None:
            return self.root / stream / operator, True
        states = self.states(operator)
        return (states[0], False) if len(states) == 1 else (None, False)

    def states(self, operator: str) -> list[Folder]:
        """Returns the folders with state of an operator: of all streams, and of a backfill, which is named
        ``backfill``.
        """
        try:
            found = [self.root / name / operator for name in sorted(self.root.folders())]
            return [state for state in found if state.has("meta.json")]
        except OSError as error:
            raise CheckpointError(f"cannot read the state in {self.root}: {error.strerror}") from None

    def loaded(self, operator: str) -> None:
        """Raises :class:`CheckpointError` if the stream is to continue after a load that has not been run."""
        try:
            if (self.checkpoint / HERE).has(HANDOVER) and not self.states(operator):
                raise CheckpointError(
                    f"the checkpoint {self.checkpoint} hands over from a load to the stream, but nothing was loaded: "
                    "run bulk_load with it to the end first"
                )
        except OSError as error:
            raise CheckpointError(f"cannot read {self.checkpoint / HERE}: {error.strerror}") from None

    def rolling_back(self) -> dict[str, int] | None:
        """Returns the batches ``to`` and ``from`` of an unfinished rollback; None if there is none."""
        remedy = "put it back from a copy"
        return _read_part(
            self.checkpoint / HERE, ROLLBACK, lambda found: {"to": found["to"], "from": found["from"]}, remedy
        )

    def unfinished(self, batch: int) -> CheckpointError:
        """Returns the error for a stream whose rollback to a batch was not finished."""
        return CheckpointError(
            f"the rollback of {self.checkpoint} to batch {batch} was not finished: run "
            f"`crown state {self.checkpoint} --rollback-to {batch}` again, with the same --into"
        )

    def demand_settled(self) -> None:
        """Raises :class:`CheckpointError` if a rollback of the stream is unfinished."""
        begun = self.rolling_back()
        if begun is not None:
            raise self.unfinished(begun["to"])

    def claim(self) -> None:
        """Checks that both folders can be written and that no other process holds the checkpoint; then stores the place
        of the state in the checkpoint.

        Raises :class:`FolderError` or :class:`CheckpointError`.
        """
        ensure_writable(self.checkpoint, "checkpoint")
        self.demand_settled()
        if isinstance(self.checkpoint, LocalFolder):
            unclaimed(self.checkpoint.path)
        if self.home != self.checkpoint / HERE:
            ensure_writable(self.home, "state")
            self._note()

    def outside(self, kind: str) -> list[str]:
        """Returns the folders of a kind (``QUARANTINES``, ``TABLES``) into which the stream writes."""
        remedy = (
            "restore it from a copy, or delete it, and name the tables yourself (--into) when you roll back the stream"
        )
        return _read_part(self.checkpoint / HERE, _OUTSIDE, lambda found: list(found.get(kind, [])), remedy) or []

    def writes_to(self, kind: str, folder: str) -> None:
        """Stores in the checkpoint that the stream writes into a folder."""
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
        here, data = self.checkpoint / HERE, json.dumps({"state": str(self.home)}).encode()
        try:
            here.make()
            here.create(_ELSEWHERE, data)
        except OSError as error:
            raise CheckpointError(f"cannot write {here.at(_ELSEWHERE)}: {error.strerror}") from None


def located(
    checkpoint: str, state: str | None, options: Mapping[str, str] | None = None, spool: str | None = None
) -> Whereabouts:
    """Returns the place of a checkpoint's state, as given, or as stored in the checkpoint.

    Raises :class:`FolderError` for a path that cannot be used, and :class:`CheckpointError` if the checkpoint names
    another place than the given one.
    """
    folder = folder_at(checkpoint, "checkpoint", options, spool)
    root = folder / HERE if state is None else folder_at(state, "state", options, spool)
    noted = elsewhere(folder)
    if noted is not None and noted != str(root):
        if state is not None:
            raise CheckpointError(
                f"the state of the checkpoint {folder} is in {noted}, but state= is {root}: give the folder that has "
                f"the state; or, if it is lost, {ANEW}"
            )
        root = folder_at(noted, "state", options, spool)
    if noted is None and state is not None and root != folder / HERE and _has_state(folder):
        raise CheckpointError(
            f"the state of the checkpoint {folder} is inside it, but state= is {root}: leave out state=, or {ANEW}"
        )
    if root == folder:
        raise FolderError(f"state {root} is the checkpoint itself: leave out state=, or give a folder of its own")
    return Whereabouts(folder, current(root), root)


def current(home: Folder) -> Folder:
    """Returns the folder of the current state: ``home``, or the folder in it that ``current.json`` names.

    Raises :class:`CheckpointError` if the file cannot be read, or does not name a folder.
    """
    remedy = 'restore it from a copy, or write into it which folder next to it has the state: {"state": "cells-..."}'
    name = _read_part(home, CURRENT, lambda found: _RECELLED.fullmatch(found["state"])[0], remedy)  # type: ignore[index]
    return home if name is None else home / name


def fresh(home: Folder, cells: int, batch: int) -> Folder:
    """Returns a new folder name in ``home`` for a state that is cut into ``cells`` cells after a batch."""
    taken, name, number = set(home.folders()), f"cells-{cells}-after-{batch}", 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return home / found


def make_current(home: Folder, state: Folder) -> None:
    """Makes the folder ``state`` in ``home`` the current one, with one atomic write."""
    home.replace(CURRENT, json.dumps({"state": state.name}).encode())


def elsewhere(checkpoint: Folder) -> str | None:
    """Returns the place of a checkpoint's state, if the state is outside of the checkpoint."""
    remedy = 'restore it from a copy, or write {"state": "<folder or URI of the state>"}'
    return _read_part(checkpoint / HERE, _ELSEWHERE, lambda found: str(found["state"]), remedy)


def _read_part(folder: Folder, name: str, part: Callable[[Any], _Part], remedy: str) -> _Part | None:
    """Returns a part of a JSON file; None if the file does not exist. Raises :class:`CheckpointError` if it cannot be
    read, or is damaged, with the remedy.
    """
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
