"""``meta.json`` of an operator: the plan and the cells of its state. It decides which stream may continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_jobs.errors import ANEW, CheckpointError, DamagedStateError, PlanChangedError
from spark_jobs.log.delta_file import format_of
from spark_jobs.log.state_log import cell_folders
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

_FILE = "meta.json"
_META = {"format": int, "fingerprint": str, "cells": int, "grid": dict, "query": str}


def check_meta(folder: Folder | Path, meta: Mapping[str, Any]) -> None:
    """Writes ``meta.json`` of an operator if there is none; otherwise checks that plan and cells are the same.

    ``meta`` holds format, fingerprint, cells, grid, query. Raises :class:`PlanChangedError` with both sides and the
    remedy, and :class:`DamagedStateError` if there are cells without ``meta.json``.
    """
    folder = folder_at(folder)
    path = folder.at(_FILE)
    stored = read_meta(folder)
    if stored is None:
        _refuse_orphans(folder)
        data = json.dumps({"checksum": checksum_of(meta), **meta}, indent=1).encode()
        try:
            folder.make()
            folder.create(_FILE, data)  # if another cell was first, its file is checked below
        except OSError as error:
            raise CheckpointError(f"cannot write {path}: {error.strerror}") from None
        stored = read_meta(folder)
        if stored is None:
            raise CheckpointError(f"{path} vanished while it was being written")
    known, cells = format_of(stored["cells"]), stored["cells"]
    if stored["format"] != known:
        raise PlanChangedError(
            f"the state in {folder} has format {stored['format']}, this version reads format {known} of a state in "
            f"{cells} {'cell' if cells == 1 else 'cells'}: use the version that wrote it, or {ANEW}"
        )
    if stored["fingerprint"] != meta["fingerprint"]:
        raise PlanChangedError(
            f"the state in {folder} was written by plan {stored['fingerprint']} ({stored['query']}), "
            f"but this is plan {meta['fingerprint']} ({meta['query']}). A changed query needs its own state: go back "
            "to the query of this one; or give two queries in one stream different operator= names; or "
            f"{ANEW}"
        )
    if stored["cells"] != meta["cells"]:
        raise PlanChangedError(
            f"the state in {folder} is cut into {stored['cells']} cells ({stored['fingerprint']}), this run asks for "
            f"{meta['cells']}: use cells={stored['cells']}; or stop the job, and run `crown state` with the "
            f"checkpoint and --recell {meta['cells']}; or {ANEW}"
        )
    if stored["grid"] != meta["grid"]:
        raise PlanChangedError(
            f"the state in {folder} is partitioned by {stored['grid']}, and this run partitions by {meta['grid']}, so "
            f"new rows would go to cells that do not have the old ones: leave out rates=, or {ANEW}"
        )


def read_meta(folder: Folder | Path) -> dict[str, Any] | None:
    """Returns ``meta.json`` of an operator's folder, or None. Raises :class:`DamagedStateError` if it has other
    contents than this package writes.

    A file without a checksum, of an older version, is accepted. (The checksum comes first in the file: a truncated file
    without it is not JSON, or lacks a key, or has the same contents.)
    """
    folder = folder_at(folder)
    path = folder.at(_FILE)
    try:
        meta = json.loads(folder.read(_FILE))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DamagedStateError(f"{path} is damaged: it is not JSON. Restore it from a copy") from None
    if not isinstance(meta, dict):
        raise DamagedStateError(f"{path} was not written by this operator: choose another checkpoint folder")
    checksum = meta.pop("checksum", None)
    if set(meta) != set(_META) or any(type(meta[key]) is not kind for key, kind in _META.items()):
        raise DamagedStateError(f"{path} was not written by this operator: choose another checkpoint folder")
    if checksum is not None and checksum != checksum_of(meta):
        raise DamagedStateError(f"{path} is damaged: its checksum does not match. Restore it from a copy")
    return meta


def _refuse_orphans(folder: Folder) -> None:
    """Raises if the folder has cells but no ``meta.json``, which is written before any cell."""
    cells = cell_folders(folder)
    if cells and read_meta(folder) is None:
        raise DamagedStateError(
            f"{folder.at(_FILE)} is missing, but there are cells ({', '.join(path.name for path in cells)}): without "
            f"it the number of cells of the state is not known. Restore it from a copy, or {ANEW}"
        )


def checksum_of(meta: Mapping[str, Any]) -> str:
    """Returns the checksum of a JSON file's other fields."""
    return hashlib.blake2b(json.dumps(meta, sort_keys=True).encode(), digest_size=16).hexdigest()
