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

import spark_jobs
from crown.errors import needs

if TYPE_CHECKING:
    from typing import Any

    from spark_jobs import *  # noqa: F403

__all__ = [name for name in spark_jobs.__all__ if name != "plain_errors"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Loads a name on first use. MissingPackageError without PySpark."""
        if name not in __all__:
            raise AttributeError(f"module 'crown.spark' has no attribute {name!r}")
        from importlib import import_module

        with needs("crown.spark"):
            import_module("pyspark")
            return getattr(spark_jobs, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
