"""The process from which PySpark forks its workers, with the engine loaded before the first fork.

Workers start and end (Spark ends them after a minute of idleness, or kills them, and a task that failed is tried again
in a new one); each would load the compiled kernels anew, and the modules of a worker. Loaded once here, they are
shared by every worker. Used through ``spark.python.daemon.module`` (see ``session.LAPTOP``); without it everything
works, but the first batch of each worker is slower.
"""

import gc
import sys
from typing import Any
from zipimport import zipimporter

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Returns a worker of PySpark's that ends without a traceback when Spark hangs up: after a ``limit``, or a stop."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


def forget_archives() -> None:
    """Has Python forget its readers of zip files, not what is in them.

    Every new worker has all readers look for changes, and that of ``pyspark.zip`` reads a thousand entries to find
    none.
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
    gc.freeze()  # a worker collects garbage after every task: only of what is its own
    daemon.worker = worker
    daemon.manager()
