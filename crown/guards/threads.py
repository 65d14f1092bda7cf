"""Runs jobs of several cells in the threads of a pool. A forked process starts its own threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from crown.errors import CrownError, UnusableStateError

_TICK = 0.01  # seconds between two checks whether a batch must stop
_T = TypeVar("_T")


class Stopped(CrownError):
    """Makes a cell undo its part of a batch, because another cell has failed."""

    def __init__(self) -> None:
        super().__init__("another cell has stopped the batch")


class Threads:
    """At most ``most`` threads, started when they are first used, and again in a forked process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: tuple[int, ThreadPoolExecutor] | None = None
        self._stops = False

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Returns the pool of this process. A forked process does not run tasks that its parent had submitted."""
        process = os.getpid()
        if self._made is None or self._made[0] != process:
            self._made = process, ThreadPoolExecutor(self._most, thread_name_prefix="crown-cell")
        return self._made[1]

    def run(self, jobs: Sequence[Callable[[], _T]], check: Callable[[], None]) -> list[_T]:
        """Runs the first job in this thread, and the others in the pool. Returns the results, in order.

        ``check`` is called while this thread waits, and at the end; an error that it raises stops the jobs. If it
        raises, no job is running any more. Raises the first job's error that is not Stopped; UnusableStateError takes
        precedence.
        """
        others: list[Future[_T]] = []
        try:
            try:
                others.extend(map(self.pool.submit, jobs[1:]))  # one step: every started job is in the list
            except RuntimeError:
                if others:
                    raise
                return [job() for job in jobs]  # Python is ending, and its threads have ended
            results = [jobs[0]()]
            while not all(job.done() for job in others) and wait(others, _TICK).not_done:
                check()
            results += [job.result() for job in others]
            check()
        except BaseException as error:
            self._stops = True
            wait(others)
            self._stops = False
            cause = _cause(error, others)
            if cause is error:
                raise
            raise cause from None
        return results

    def check(self) -> None:
        """Raises Stopped while jobs run of which one has failed."""
        if self._stops:
            raise Stopped


def _cause(error: BaseException, jobs: Sequence[Future[Any]]) -> BaseException:
    """Returns the error that stopped the jobs."""
    errors = [error, *(failed for job in jobs if (failed := job.exception()) is not None)]
    lost = [one for one in errors if isinstance(one, UnusableStateError)]
    return [*lost, *(one for one in errors if not isinstance(one, Stopped)), error][0]
