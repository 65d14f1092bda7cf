"""The input of a task: detects a JVM that gave up in the middle, and reads ahead.

When a task fails or is cancelled in the JVM (a bad row, a stopped query, a lost executor), Spark closes the connection
to the worker. If that happens between two record batches, Arrow takes it for the end of the rows, and the function
under ``mapInArrow`` sees a shorter batch that looks complete. If this batch were published as a delta, it would count
as the whole batch.

After the last row Spark sends the worker a word that ends the task. So the input was complete if and only if there is
something more to read.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, Any

import pyarrow as pa

from spark_jobs.errors import SparkJobError


class CutShortError(SparkJobError):
    """The input of a task ended too early. The task has failed already, so this error is not shown."""


def complete(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same batches; raises :class:`CutShortError` if the connection ended before Spark sent everything.

    Outside a worker process (tests, tools) there is no connection to check, and every end counts as complete.
    """
    channel = _channel()
    try:
        yield from batches
    except (pa.ArrowInvalid, OSError):  # cut in the middle of a record batch
        raise CutShortError("Spark ended this task before its input was complete") from None
    if channel is not None and not channel.peek(1):
        raise CutShortError("Spark ended this task before its input was complete")


def read_ahead(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Yields the same batches, which a thread reads in the meantime, so that the JVM goes on while the engine works.

    The thread is ahead by at most ``most`` bytes and one batch. If the caller stops early, the thread ends after its
    next batch, or with the process.
    """
    waiting: deque[pa.RecordBatch | BaseException | None] = deque()
    changed = threading.Condition()
    held, wanted = 0, True

    def room() -> bool:
        return held < max(most, 1) or not wanted

    def read() -> None:
        nonlocal held
        last: BaseException | None = None
        try:
            for batch in batches:
                with changed:
                    changed.wait_for(room)
                    if not wanted:
                        return
                    waiting.append(batch)
                    held += batch.nbytes
                    changed.notify()
        except BaseException as error:  # the caller receives every error
            last = error
        with changed:
            waiting.append(last)
            changed.notify()

    threading.Thread(target=read, name="input", daemon=True).start()
    try:
        while True:
            with changed:
                changed.wait_for(lambda: waiting)
                found = waiting.popleft()
                if isinstance(found, pa.RecordBatch):
                    held -= found.nbytes
                    changed.notify()
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        with changed:
            wanted = False
            changed.notify()


def _channel() -> Any:
    """Returns the stream from which this worker reads, as ``pyspark.worker.main`` names it; None outside a worker."""
    frame = sys._getframe()
    while frame is not None:
        found: IO[bytes] | None = frame.f_locals.get("infile")
        if frame.f_code.co_name == "main" and hasattr(found, "peek"):
            return found
        frame = frame.f_back  # type: ignore[assignment]
    return None
