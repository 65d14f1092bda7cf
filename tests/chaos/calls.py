"""Faults of a process's calls of the system: it dies before, after or half-way through the k-th, or the call fails."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

CALLS = ("link", "fsync", "replace", "unlink", "rename", "truncate", "ftruncate", "open", "mkdir")
ERRORS = {"disk full": (28, "No space left on device"), "i/o error": (5, "Input/output error")}


def die() -> None:
    """Kills this process, as the kernel does for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(rng: random.Random, how: str, within: int) -> None:
    """Has one of the next ``within`` calls of this process fail: ``how`` is "before", "after", "half" or an error.

    "half": the file that is made durable has lost its end when the process dies. An error goes on for all later calls.
    """
    last, count = rng.randrange(1, within + 1), 0

    def armed(real: Any, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if how in ERRORS and count >= last and name not in ("unlink", "ftruncate"):
                raise OSError(*ERRORS[how], None)
            if count != last or how in ERRORS:
                return real(*args, **options)
            if how == "half" and name == "fsync":
                real_truncate(args[0], os.fstat(args[0]).st_size // 2)
            if how == "after":
                real(*args, **options)
            return die()

        return call

    real_truncate = os.ftruncate
    for name in CALLS:
        setattr(os, name, armed(getattr(os, name), name))


def shift_clock(seconds: float) -> None:
    """Has the clock of this process jump."""
    real = time.time
    time.time = lambda: real() + seconds


def strike_later(seconds: float, number: int = signal.SIGKILL) -> None:
    """Sends this process a signal after some time, wherever it is then."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-4))
