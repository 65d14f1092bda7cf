"""A process that dies at its k-th call of the system, for every k: run as ``python -m tests.durable.crashes``.

Each life is a fork, in which the calls that make something durable are counted; at the k-th it kills itself with
SIGKILL, before or after the call, or half-way through what it writes. The parent opens the folder again and compares
with a recompute.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import crown
from crown.errors import RecoveryWarning
from tests.durable.streams import QUERIES, SCHEMA, batch, contents, recomputed

CALLS = ("pwrite", "fsync", "fdatasync", "replace", "ftruncate", "open", "unlink")
BATCHES = 5
OPTIONS: dict[str, Any] = {"snapshot_bytes": 1500, "sync": "batch", "keep": 1}


def arm(last: int, how: str) -> None:
    """Has this process die at its ``last``-th call: ``before`` it, ``half`` through it (writes only), ``after`` it."""
    count = 0

    def armed(real: Any, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == last:
                if how == "half" and name == "pwrite":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
                if how == "after":
                    real(*args, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        return call

    for name in CALLS:
        setattr(os, name, armed(getattr(os, name), name))


def life(folder: Path, query: str, acknowledged: int) -> None:
    """Opens the folder and applies what is left of the stream; notes every batch through the pipe ``acknowledged``."""
    view = crown.open(query, folder, SCHEMA, **OPTIONS)
    while view.batches < BATCHES:
        view.update(batch(5, view.batches))
        os.write(acknowledged, bytes([view.batches]))
    view.close()


def lives(query: str, how: str, first: int) -> int:
    """Kills a process at its ``first``-th call, the next at its first, second, ... until one comes to the end.

    Returns how many there were; what is found in between is what the dead had acknowledged.
    """
    kills = 0
    with tempfile.TemporaryDirectory() as made:
        folder, known = Path(made) / "v", 0
        while True:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.close(reader)
                    warnings.simplefilter("ignore", RecoveryWarning)
                    arm(first if kills == 0 else 3 * kills + first, how)
                    life(folder, query, writer)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(0)
            os.close(writer)
            with open(reader, "rb") as told:
                known = max([known, *told.read()])
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                assert known == BATCHES, f"ended with {known} batches"
            if (folder / "meta.json").exists():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RecoveryWarning)
                    with crown.open(query, folder, SCHEMA, **OPTIONS) as view:
                        assert known <= view.batches <= known + 1, f"{view.batches} batches, acknowledged {known}"
                        assert contents(view) == recomputed(query, 5, view.batches), f"another result after {known}"
                        known = view.batches
            else:
                assert known == 0
            if not os.WIFSIGNALED(status):
                return kills
            kills += 1


def main() -> int:
    """Tries every first call of a life; prints how many processes died."""
    query, how, step = QUERIES[sys.argv[1]], sys.argv[2], int(sys.argv[3])
    crown.view(query, SCHEMA).update(batch(5, 0))  # compiled and loaded once, before the first fork
    died = total = 0
    for first in range(1, 400, step):
        died = lives(query, how, first)
        total += died
        if not died:
            break
    assert died == 0, "some first call is the last of all"
    print(f"{total} processes died, and nothing was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
