"""Locks the checkpoint of a ``maintain`` stream while it runs, as jobs of ``crown submit`` do.

The user starts and stops the streams. So a thread asks Spark every second which streams are running. A checkpoint whose
``metadata`` contains the id of a running stream is locked (``spark_jobs.folders.locked``) until the stream has ended.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.errors import CheckpointError
from spark_jobs.folders import locked
from spark_jobs.log.history import stream_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import ensure_writable

_EVERY = 1.0  # seconds
_claimed: dict[Path, SparkSession] = {}
_locked: dict[Path, ExitStack] = {}
_lock = threading.Lock()


def claim(spark: SparkSession, checkpoint: Folder) -> None:
    """Has the streams of a session lock a local checkpoint whenever they run on it."""
    if not isinstance(checkpoint, LocalFolder):
        return
    with _lock:
        first = not _claimed
        _claimed[checkpoint.path] = spark
    if first:
        threading.Thread(target=_watch, name="crown-locking", daemon=True).start()


def settle() -> None:
    """Locks the checkpoints of running streams, and unlocks those of streams that have ended."""
    with _lock:
        running = {spark: _running(spark) for spark in {*_claimed.values()}}
        for checkpoint, spark in _claimed.items():
            runs = bool(running[spark]) and _stream(checkpoint) in running[spark]
            if not runs and checkpoint in _locked:
                _locked.pop(checkpoint).close()
            elif runs and checkpoint not in _locked:
                with suppress(CheckpointError, OSError), ExitStack() as stack:  # a job may hold the lock
                    stack.enter_context(locked(checkpoint))
                    _locked[checkpoint] = stack.pop_all()


def exclusive(checkpoint: Folder) -> AbstractContextManager[None]:
    """Locks a local checkpoint while a command works on the state of a stopped job. A checkpoint on an object store has
    no lock.

    Raises :class:`CheckpointError` if a job or a stream holds it.
    """
    if not isinstance(checkpoint, LocalFolder):
        return nullcontext()
    settle()
    ensure_writable(checkpoint, "checkpoint")
    return locked(checkpoint.path)


def _watch() -> None:
    while True:
        settle()
        time.sleep(_EVERY)


def _running(spark: SparkSession) -> set[str]:
    """Returns the ids of the running streams of a session; none if the session has ended."""
    try:
        return {str(query.id) for query in spark.streams.active}
    except (Py4JError, PySparkException, OSError, AttributeError):
        return set()


def _stream(checkpoint: Path) -> str | None:
    with suppress(CheckpointError):
        return stream_of(checkpoint)
    return None
