"""The numbers of a running stream for Prometheus, written after every micro-batch by a listener in the driver.

Spark reports what it read, how long it took, and, by ``observe``, how many rows each operator sent to its cells. The
cells report their work in notes (``spark_jobs.job.vitals``). Both are written to one file for node-exporter's textfile
collector.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from crown.analysis.prometheus import Metric, Sample, rendered, written
from spark_jobs.errors import SparkJobError
from spark_jobs.folders import local_folder
from spark_jobs.job.progress import rows_of_files, rows_read
from spark_jobs.job.vitals import prometheus, vitals
from spark_jobs.log.state_location import located
from spark_jobs.storage.folder import Folder

OBSERVED = "crown."
"""Prefix of the names of observed metrics; the operator's name follows."""

_log = logging.getLogger("crown")


class Metrics(StreamingQueryListener):
    """Writes ``file`` after every micro-batch of a stream on ``checkpoint``, whose state ``located`` finds.

    A file that cannot be written, or state that cannot be read, does not stop the stream: one warning is logged.
    """

    def __init__(
        self, checkpoint: str, file: str, state: str | None = None, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._where = (checkpoint, state, storage_options)
        located(*self._where)
        self._file = local_folder(file, "file")
        self._newest: dict[str, Mapping[str, Any]] = {}
        self._warned = False
        self._alone = threading.Lock()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing: there are no numbers yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: the numbers are those of the last batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Does nothing: the last numbers stay."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Writes the file, if the stream runs on the checkpoint."""
        self.take(json.loads(event.progress.json))

    def take(self, progress: Mapping[str, Any]) -> None:
        """Writes the file after a micro-batch with that progress, Spark's JSON. O(cells).

        Spark's events arrive late, and the owner of the stream may pass newer progress: older progress is ignored.
        """
        with self._alone:
            self._take(str(progress["id"]), progress)

    def _take(self, stream: str, progress: Mapping[str, Any]) -> None:
        known = self._newest.get(stream)
        if known is not None and known["batchId"] > progress["batchId"]:
            return  # an older batch
        try:
            root = located(*self._where).root  # the checkpoint contains the place once the stream has begun
            if not _operators(root / stream):
                return  # a stream without cells
            self._newest[stream] = progress
            cells = [cell for stream in self._newest for state in _operators(root / stream) for cell in vitals(state)]
            filed = {id_: rows_of_files(root / id_, newest["batchId"]) for id_, newest in self._newest.items()}
            written(self._file, [*prometheus(cells), *of_streams(self._newest, filed)])
        except (OSError, SparkJobError) as error:
            if not self._warned:
                why = error.strerror if isinstance(error, OSError) else error
                _log.warning("the metrics cannot be written to %s: %s", self._file, why)
            self._warned = True


def _operators(stream: Folder) -> list[Folder]:
    """Returns the folders of a stream's operators."""
    return [stream / name for name in sorted(stream.folders()) if (stream / name).has("meta.json")]


def metrics(
    spark: SparkSession,
    checkpoint: str,
    file: str,
    *,
    state: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Metrics:
    """Returns a listener, already added, that writes the numbers of the streams on ``checkpoint`` to ``file``.

    Call it before the stream is started. ``state`` and ``storage_options``: as for ``maintain``.
    ``spark.streams.removeListener`` ends it. Raises :class:`FolderError` for a path that cannot be used.
    """
    listener = Metrics(checkpoint, file, state, storage_options)
    spark.streams.addListener(listener)
    return listener


_STREAM = (
    (Metric("crown_stream_batch", "gauge", "Newest micro-batch that Spark has committed"), "batchId"),
    (Metric("crown_stream_input_rows", "gauge", "Rows that were read for it"), "numInputRows"),
    (
        Metric("crown_stream_rows_per_second", "gauge", "Rows that were processed per second in it"),
        "processedRowsPerSecond",
    ),
)
_TRIGGER = Metric("crown_stream_trigger_milliseconds", "gauge", "Duration of that micro-batch, from trigger to commit")
_SENT = Metric("crown_stream_sent_rows", "gauge", "Rows that an operator sent to its cells in it")


def of_streams(newest: Mapping[str, Mapping[str, Any]], filed: Mapping[str, int]) -> Iterator[str]:
    """Yields Spark's numbers of the ``newest`` micro-batch of each stream (by id), as lines of Prometheus' format.

    ``filed``: the number of its rows that the cells have read from files.
    """
    newest = {stream: {**progress, **_in_rows(progress, filed.get(stream, 0))} for stream, progress in newest.items()}
    for metric, field in _STREAM:
        yield from rendered(metric, [({"stream": s}, progress.get(field) or 0) for s, progress in newest.items()])
    took = {stream: progress.get("durationMs", {}).get("triggerExecution", 0) for stream, progress in newest.items()}
    yield from rendered(_TRIGGER, [({"stream": stream}, number) for stream, number in took.items()])
    yield from rendered(_SENT, _sent(newest))


def _sent(newest: Mapping[str, Mapping[str, Any]]) -> Iterator[Sample]:
    for stream, progress in newest.items():
        for observed, values in sorted((progress.get("observedMetrics") or {}).items()):
            if observed.startswith(OBSERVED):
                yield {"stream": stream, "operator": observed.removeprefix(OBSERVED)}, values["rows"]


def _in_rows(progress: Mapping[str, Any], filed: int) -> dict[str, float]:
    """Returns Spark's counts and rates of rows, corrected for files: Spark counts a file that cells read as one row."""
    given, rows = progress.get("numInputRows") or 0, rows_read(progress, filed)
    rate = progress.get("processedRowsPerSecond") or 0
    return {"numInputRows": rows, "processedRowsPerSecond": rate * rows / given if given else 0}
