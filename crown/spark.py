"""``crown.spark``: ``maintain`` and the other functions of ``spark_jobs``. Needs ``pip install 'crown-ivm[spark]'``.

>>> import crown
>>> sorted(crown.spark.__all__)
... # doctest: +NORMALIZE_WHITESPACE
['DeltaFeed', 'KafkaFeed', 'bulk_load', 'delta_changes', 'delta_files', 'delta_table', 'handover', 'local_session',
 'maintain', 'metrics', 'pipeline', 'read_deltas', 'read_view', 'rollback', 'split', 'to_table', 'view_batch',
 'write_deltas']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crown.errors import needs

if TYPE_CHECKING:
    from typing import Any

    from spark_jobs.feeds.delta import delta_changes, delta_table
    from spark_jobs.feeds.handover import DeltaFeed, KafkaFeed, handover
    from spark_jobs.feeds.split import split
    from spark_jobs.job.backfill import bulk_load
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
    "DeltaFeed",
    "KafkaFeed",
    "bulk_load",
    "delta_changes",
    "delta_files",
    "delta_table",
    "handover",
    "local_session",
    "maintain",
    "metrics",
    "pipeline",
    "read_deltas",
    "read_view",
    "rollback",
    "split",
    "to_table",
    "view_batch",
    "write_deltas",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Loads a name on first use. MissingPackageError without PySpark."""
        if name not in __all__:
            raise AttributeError(f"module 'crown.spark' has no attribute {name!r}")
        from importlib import import_module

        with needs("crown.spark"):
            import_module("pyspark")
            return getattr(import_module("spark_jobs"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
