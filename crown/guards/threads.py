"""A pool of threads per process: a forked process starts its own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor


class Threads:
    """At most ``most`` threads called ``name``, made when they are first asked for, and anew in a forked process."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._made: tuple[int, ThreadPoolExecutor] | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Returns the pool of this process. In one that was forked, what its parent had submitted is not done."""
        process = os.getpid()
        if self._made is None or self._made[0] != process:
            self._made = process, ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
        return self._made[1]
