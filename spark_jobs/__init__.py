"""Change propagation as a Spark operator: streaming change tables in, a streaming table of exact deltas out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_jobs.feeds.delta import delta_changes, delta_table
    from spark_jobs.feeds.handover import DeltaFeed, KafkaFeed, handover
    from spark_jobs.feeds.split import split
    from spark_jobs.job.backfill import bulk_load
    from spark_jobs.job.failures import plain_errors
    from spark_jobs.job.metrics import metrics
    from spark_jobs.job.rollback import rollback
    from spark_jobs.operator import maintain
    from spark_jobs.pipelines.pipeline import pipeline
    from spark_jobs.session import local_session
    from spark_jobs.tables.deltas.manifests import delta_files
    from spark_jobs.tables.deltas.write import read_deltas, write_deltas
    from spark_jobs.tables.results.table import to_table
    from spark_jobs.tables.view import read_view, view_batch

__all__ = [
    "DeltaFeed", "KafkaFeed", "bulk_load", "delta_changes", "delta_files", "delta_table", "handover", "local_session",
    "maintain", "metrics", "pipeline", "plain_errors", "read_deltas", "read_view", "rollback", "split", "to_table",
    "view_batch", "write_deltas",
]  # fmt: skip

_HOME = {
    "DeltaFeed": "feeds.handover", "KafkaFeed": "feeds.handover", "bulk_load": "job.backfill",
    "delta_changes": "feeds.delta", "delta_files": "tables.deltas.manifests", "delta_table": "feeds.delta",
    "handover": "feeds.handover", "local_session": "session", "maintain": "operator", "metrics": "job.metrics",
    "pipeline": "pipelines.pipeline", "plain_errors": "job.failures", "read_deltas": "tables.deltas.write",
    "read_view": "tables.view", "rollback": "job.rollback", "split": "feeds.split", "to_table": "tables.results.table",
    "view_batch": "tables.view", "write_deltas": "tables.deltas.write",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads the public names on first use: worker processes need the cells only, not the whole package."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"spark_jobs.{_HOME[name]}"), name)
