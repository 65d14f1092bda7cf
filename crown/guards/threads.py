"""Runs jobs of several cells in threads: functions in Python's pool, calls of a kernel in a team.

A call takes no Python, and often less time than it takes to wake a thread. So the threads of a team watch for the next
call for some time, without the GIL, before they sleep (see ``crown/compiling/native.c``). All views share a team,
because threads that watch occupy processors. A forked process starts its own threads.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from threading import Thread
from typing import Any, TypeVar

from crown.compiling.library import library
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

    def call(self, kernel: Any, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a kernel with each of these tuples of arguments: the first in this thread, the others in threads.

        Returns the results; if a call raises, its exception in place of the result.
        """
        if len(calls) > 1 and library() is not None:
            team = _team(self._most, os.getpid())
            found: list[Any] | None = None if team is None else team.run(kernel, list(calls))
            if found is not None:  # else it makes calls for another thread, or Python is ending
                return found

        def job(arguments: tuple[Any, ...]) -> Any:
            try:
                return kernel(*arguments)
            except BaseException as error:
                return error

        return self.run([partial(job, arguments) for arguments in calls], lambda: None)

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
            cause = first_cause([error, *(failed for job in others if (failed := job.exception()) is not None)])
            if cause is error:
                raise
            raise cause from None
        return results

    def check(self) -> None:
        """Raises Stopped while jobs run of which one has failed."""
        if self._stops:
            raise Stopped


@cache
def _team(count: int, process: int) -> Any:
    """Returns the team of ``count`` threads of this ``process``, an object of ``crown.compiling.native.Team``. Returns
    None if Python is ending, and starts no thread."""
    from crown.compiling.native import Team

    team = Team(count)
    try:
        for number in range(count):
            Thread(target=team.serve, args=(number,), name=f"crown-call-{number}", daemon=True).start()
    except RuntimeError:
        team.end()
        return None
    atexit.register(team.end)
    return team


def first_cause(errors: Sequence[BaseException]) -> BaseException:
    """Returns the error that stopped the jobs that raised these errors."""
    lost = [one for one in errors if isinstance(one, UnusableStateError)]
    return [*lost, *(one for one in errors if not isinstance(one, Stopped)), *errors][0]
