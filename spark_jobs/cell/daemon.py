"""The process from which PySpark forks its workers, with the engine loaded before the first fork.

Spark ends a worker after a minute of idleness, may kill it, and retries a failed task in a new one. Each new worker
would load its modules and the compiled kernels again. This process loads them once, and all workers share them. It is
enabled by ``spark.python.daemon.module`` (see ``session.LAPTOP``). Without it everything works, but the first batch of
each worker is slower.
"""

import gc
import sys
from typing import Any
from zipimport import zipimporter

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Returns a PySpark worker that ends without a traceback when Spark closes the connection, after a ``limit`` or a
    stop.
    """
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


def forget_archives() -> None:
    """Removes Python's cached readers of zip files, not the modules that were loaded from them.

    Every new worker has all readers look for changes, and the reader of ``pyspark.zip`` reads a thousand entries to
    find none.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    import pyspark.worker  # noqa: F401 - comes from pyspark.zip, which holds no compiled code

    import spark_jobs.cell.step  # noqa: F401 - loads what every task needs
    from spark_jobs.cell.warm import warm_up_common

    warm_up_common()
    forget_archives()
    gc.collect()
    gc.freeze()  # so a worker collects only its own garbage after every task
    daemon.worker = worker
    daemon.manager()
