"""``crown state``: shows and checks the checkpoint of a Spark job, rolls it back to an earlier batch, or cuts its state
into another number of cells.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crown.analysis.hot import HotKey
from crown.errors import SnapshotError
from crown.programs import snapshot
from plans.commands.declare import repeated
from spark_jobs.errors import CheckpointError
from spark_jobs.job.progress import size
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_location import HERE, current, elsewhere
from spark_jobs.log.state_log import CellLog, cell_folders, read_note, strangers
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

HELP = "show, check or roll back the state that a Spark job keeps in its checkpoint, or change its number of cells"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("checkpoint", help="the job's checkpoint, its state, or an operator's folder: a path or URI")
    parser.add_argument(
        "--check",
        action="store_true",
        help="read every file and check that batches follow each other; exit 1 if they do not",
    )
    parser.add_argument("--json", action="store_true", help="write it as one JSON object, for programs")
    parser.add_argument(
        "--hot", type=int, metavar="N", help="rebuild every cell in memory, and show the N keys with the most rows"
    )
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--rollback-to",
        type=int,
        metavar="BATCH",
        help="take a stopped job back to the end of this batch: its tables, Spark's checkpoint and its state",
    )
    change.add_argument(
        "--recell", type=int, metavar="N", help="cut the state of a stopped job into N cells; the old state is kept"
    )
    repeated(
        parser,
        "--into",
        "TABLE",
        "--rollback-to: a table that the job writes, such as FOLDER, FOLDER?key=a,b or "
        "postgresql://user@host/database?table=totals; the output of crown submit is known",
    )


def run(args: argparse.Namespace) -> int:
    """Shows, checks, rolls back or recuts the state; exit code 1 if a check finds damage."""
    if args.into and args.rollback_to is None:
        raise CheckpointError("crown state takes --into TABLE with --rollback-to BATCH only")
    if args.rollback_to is not None:
        go_back(args.checkpoint, args.rollback_to, args.into, args.json)
        return 0
    if args.recell is not None:
        recell_state(folder_at(args.checkpoint), args.recell, args.json)
        return 0
    broken = 0
    shown = []
    for folder in operators(folder_at(args.checkpoint)):
        meta = read_meta(folder) or {}
        query, segments = " ".join(str(meta["query"]).split()), segments_of(cells(folder, meta))
        shown.append(
            {"folder": str(folder), "query": query, "plan": meta["fingerprint"], "batch": segments, "cells": []}
        )
        if not args.json:
            print(f"{folder}\n  query  {query}\n  plan   {meta['fingerprint']}")
            for segment in segments:
                print(f"  batch  {segment}")
        for log in cells(folder, meta):
            found = list(troubles(log)) if args.check else None
            broken += len(found or ())
            shown[-1]["cells"].append(described(log, found))
            hot = hottest_of(log, folder, meta, args.hot) if args.hot is not None else []
            if args.hot is not None:
                shown[-1]["cells"][-1]["hottest"] = [asdict(key) for key in hot]
            if not args.json:
                print("  " + summary(log))
                for key in hot:
                    print(f"    hot key {_named(key.key)}: {key.parents:,} rows of {key.parent}")
                for line in (*(found or ()), *(_strange(log) if args.check else ())):
                    print(f"    {line}")
    if args.json:
        whole = not broken if args.check else None
        print(json.dumps({"operators": shown, "whole": whole}, indent=1, default=str))
    elif args.check:
        print("no damage found" if not broken else f"{broken} problems")
    return 1 if broken else 0


def go_back(checkpoint: str, batch: int, into: Sequence[str], as_json: bool) -> None:
    """Rolls a stopped job back to a batch, and prints the result. See ``spark_jobs.job.rollback.rollback``."""
    from spark_jobs.job.rollback import rollback  # imports pyspark

    done = rollback(checkpoint, batch, into)
    if as_json:
        print(json.dumps(asdict(done)))
        return
    print(f"back at batch {done.batch}, from {done.before}: the state and Spark's checkpoint")
    for table in done.tables:
        print(f"  table  {table}")
    for file in done.missing:
        print(f"  file   {file} was read by a later batch and is missing: its rows will not be read again")


def recell_state(checkpoint: Folder, cells: int, as_json: bool) -> None:
    """Cuts the state of a stopped job into ``cells`` cells, and prints where the files are. See
    ``spark_jobs.recell.recell``.
    """
    from spark_jobs.recell.recell import recell  # imports pyspark

    done = recell(checkpoint, cells)
    if as_json:
        print(
            json.dumps(
                {
                    "cells": [done.before, done.after],
                    "batch": None if done.batch < 0 else done.batch,
                    "rows": done.result.rows,
                    "checksum": f"{done.result.checksum:016x}",
                    "state": str(done.state),
                    "aside": [str(folder) for folder in done.aside],
                    "current": done.pointer,
                },
                indent=1,
            )
        )
        return
    aside, them = " and ".join(map(str, done.aside)), "it" if len(done.aside) == 1 else "them"
    cut = (
        f"cut from {done.before} to {done.after} cells after batch {done.batch}; the result is the same, "
        f"{done.result.rows:,} rows with checksum {done.result.checksum:016x}"
    )
    none = f"no batch was committed yet: the job begins with {done.after} cells instead of {done.before}"
    print(
        f"{none if done.batch < 0 else cut}\n"
        f"  state  {done.state}\n"
        f"  aside  {aside}: delete {them} when the job has run; to go back before that, delete {done.pointer}"
    )


def described(log: CellLog, found: list[str] | None) -> dict[str, Any]:
    """Returns a cell for ``--json``: its batches and snapshots, their bytes, rows and bytes of the engine after the
    newest batch (None: not known), and the troubles found (None: not checked).
    """
    (batches, snapshots), sizes = log.listed(), log.files()
    note = read_note(log.folder, log.newest())
    state = note["state"] if note is not None else {}
    return {
        "cell": int(log.cell),
        "batches": [batches[0], batches[-1]] if batches else None,
        "log_bytes": sum(sizes[f"{batch}.delta"] for batch in batches),
        "snapshots": snapshots,
        "snapshot_bytes": sum(sizes[f"{version}.snapshot"] for version in snapshots),
        "rows": state.get("input_rows"),
        "live_bytes": state.get("live_bytes"),
        "troubles": found,
        "strangers": strangers(log),
    }


def segments_of(logs: Iterable[CellLog]) -> list[str]:
    """Returns how the engines of an operator run each part of the stages; nothing if no cell has a note of it."""
    notes = (read_note(log.folder, log.newest()) for log in logs)
    return next((note["batch"] for note in notes if note is not None and "batch" in note), [])


def _strange(log: CellLog) -> list[str]:
    return [f"{name} is not a file of the state; it was ignored" for name in strangers(log)]


def operators(checkpoint: Folder) -> list[Folder]:
    """Returns the folders of operators under a checkpoint, or under a state that is stored elsewhere. Raises
    :class:`CheckpointError` if there is none.
    """
    try:
        if checkpoint.has("meta.json"):
            return [checkpoint]
        noted = elsewhere(checkpoint)
        roots = [folder_at(noted, "state")] if noted is not None else [checkpoint / HERE, checkpoint]
        for root in map(current, roots):
            below = [root / stream / name for stream in sorted(root.folders()) for name in (root / stream).folders()]
            found = sorted((folder for folder in below if folder.has("meta.json")), key=str)
            if found:
                return found
    except OSError as error:
        raise CheckpointError(f"cannot read {checkpoint}: {error.strerror}") from None
    raise CheckpointError(f"{checkpoint} holds no state of a job: give the folder passed as --checkpoint")


def cells(folder: Folder, meta: dict[str, Any]) -> Iterator[CellLog]:
    """Yields the logs of an operator's cells."""
    for cell in cell_folders(folder):
        yield CellLog.of(cell, meta)


def summary(log: CellLog) -> str:
    """Returns a one-line summary of a cell."""
    known = described(log, None)
    span = "batches {} to {}".format(*known["batches"]) if known["batches"] else "no batches"
    newest = f", newest of version {known['snapshots'][-1]}" if known["snapshots"] else ""
    snapshots = f"{len(known['snapshots'])} snapshots ({size(known['snapshot_bytes'])})"
    live = f", {known['rows']:,} rows in {size(known['live_bytes'])}" if known["rows"] is not None else ""
    return f"cell {log.cell}: {span} ({size(known['log_bytes'])}), {snapshots}{newest}{live}"


def hottest_of(log: CellLog, folder: Folder, meta: dict[str, Any], most: int) -> list[HotKey]:
    """Returns the hottest keys of a cell after its newest batch. O(state), in memory."""
    from spark_jobs.cell.engines import hot_keys, restored
    from spark_jobs.cell.kept_plan import kept_plan

    backfill = folder.parent.parent / "backfill" / folder.name
    kept = kept_plan(folder, meta["fingerprint"])
    return hot_keys(restored(log, kept, log.newest(), backfill if cell_folders(backfill) else None), most)


def _named(key: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in key.items()) or "the only key"


def troubles(log: CellLog) -> Iterator[str]:
    """Yields a sentence for each fault of a cell's files. O(log + snapshots)."""
    yield from map(str, log.troubles(complete=True))
    for version in log.snapshots():
        try:
            with log.snapshot(version) as path:
                log.demand_mark(log.snapshot_path(version), read_snapshot(path), version)
        except SnapshotError as error:
            yield str(error)


def read_snapshot(path: Path) -> dict[str, Any]:
    """Loads a snapshot into memory; returns the data that was saved with it. O(state).

    Raises ``SnapshotError`` if the snapshot is incomplete.
    """
    return snapshot.load(path)[1]
