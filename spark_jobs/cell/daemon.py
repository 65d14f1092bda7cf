"""The process from which PySpark forks its workers, with the engine loaded before the first fork.

Workers come and go (Spark ends them after a minute of idleness, or kills them); each would load the compiled kernels
anew. Loaded once here, they are shared by every worker. Used through ``spark.python.daemon.module`` (see
``session.LAPTOP``); without it everything works, but the first batch of each worker is slower.
"""

from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Returns a worker of PySpark's that ends without a traceback when Spark hangs up: after a ``limit``, or a stop."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    import spark_jobs.cell.step  # noqa: F401 - loads what every task needs
    from spark_jobs.cell.warm import warm_up_common

    warm_up_common()
    daemon.worker = worker
    daemon.manager()
