"""What runs on Spark: ``maintain`` and its kin, from ``spark_jobs``. Needs ``pip install 'crown-ivm[spark]'``.

>>> import crown
>>> sorted(crown.spark.__all__)
['bulk_load', 'local_session', 'maintain', 'metrics']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crown.errors import needs

if TYPE_CHECKING:
    from typing import Any

    from spark_jobs.job.backfill import bulk_load
    from spark_jobs.job.metrics import metrics
    from spark_jobs.operator import maintain
    from spark_jobs.session import local_session

__all__ = ["bulk_load", "local_session", "maintain", "metrics"]

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
