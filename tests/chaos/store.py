"""Faults of an object store: the state is behind obstore, in a folder of this host, and requests go wrong.

A request fails, or is done and its answer lost, or is sent again though it was done, or the store is gone from then on,
or the process dies beside it. Processes are forked, and obstore's threads are not: the parent asks nothing of it.
"""

from __future__ import annotations

import random
import time
from typing import Any

from spark_jobs.cell.cell import Cell
from spark_jobs.log.state_log import CellLog
from spark_jobs.storage import objects
from spark_jobs.storage.objects import Bucket, ObjectFolder
from tests.chaos.calls import die
from tests.spark.cell.test_cell import HOPS
from tests.spark.cell.test_history import META, Job

FAULTS = ("fails", "times out", "answer lost", "sent again", "gone", "dies before", "dies after")
REQUESTS = ("get", "get_range", "head", "put", "delete", "list_with_delimiter")
LATE_S = 0.05


class StoreJob(Job):  # type: ignore[misc]
    """A job whose cells keep their state behind obstore; whoever looks at the files sees a folder."""

    def cell(self, number: int, **options: Any) -> Cell:
        """Returns a cell; nothing is asked yet."""
        root = ObjectFolder(Bucket(f"file://{self.folder}"), f"crown/{self.stream}/crown")
        log = CellLog.of(root / str(number), META)
        return Cell(HOPS, log, self.scratch / self.stream / str(number), spark=self.folder, **options)


def arm(rng: random.Random, how: str, within: int) -> None:
    """Has one of the next ``within`` requests of this process go wrong; "gone": all later ones, too."""
    last, count = rng.randrange(1, within + 1), 0
    real = objects._obstore

    class Broken:
        def __init__(self, module: Any) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._module, name)
            return self._armed(found) if name in REQUESTS else found

        def _armed(self, request: Any) -> Any:
            def asked(*args: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count != last and not (how == "gone" and count > last):
                    return request(*args, **options)
                if how in ("answer lost", "sent again", "dies after"):
                    request(*args, **options)
                if how.startswith("dies"):
                    die()
                if how == "sent again":
                    return request(*args, **options)
                if how == "times out":
                    time.sleep(LATE_S)
                raise self._module.exceptions.GenericError(f"the store {how}")

            return asked

    objects._obstore = lambda uri: Broken(real(uri))
