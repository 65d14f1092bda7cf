"""A pool of threads per process: a forked process starts its own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor


class Threads:
    """At most ``most`` threads, started when they are first used, and again in a forked process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: tuple[int, ThreadPoolExecutor] | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Returns the pool of this process. A forked process does not run tasks that its parent had submitted."""
        process = os.getpid()
        if self._made is None or self._made[0] != process:
            self._made = process, ThreadPoolExecutor(self._most, thread_name_prefix="crown-cell")
        return self._made[1]
