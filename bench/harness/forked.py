"""Work in a process of its own, which is forked: it has the imports and the streams of this one."""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import IO, Any

Say = Callable[[str, Any], None]
END_S = 5.0  # for a process to end after it was asked to


def forked(work: Callable[[Say], None], limit: float | None = None) -> Iterator[tuple[str, Any]]:
    """Yields what ``work`` says in a process of its own: (kind, value). The last is ``failed`` or ``timeout`` with the
    reason, unless ``work`` returned.

    ``limit`` seconds after its start, the process is ended, with all that it started.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryFile() as errors:
        process = context.Process(target=_child, args=(work, theirs, errors.fileno()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not go on in the new process
            process.start()
        theirs.close()
        until = None if limit is None else time.monotonic() + limit
        try:
            while ours.poll(None if until is None else max(until - time.monotonic(), 0.0)):
                yield ours.recv()
            yield "timeout", f"ended after {limit:.0f} s"
        except (EOFError, OSError):
            process.join()
            if process.exitcode:
                yield "failed", _reason(process, errors)
        finally:
            _end(process)
            ours.close()


def direct(work: Callable[[Say], None], limit: float | None = None) -> Iterator[tuple[str, Any]]:
    """Yields what ``work`` says in this process, without a limit; the last is ``failed`` if it raised."""
    said: list[tuple[str, Any]] = []
    try:
        work(lambda kind, value: said.append((kind, value)))
    except Exception as error:
        said.append(("failed", f"{type(error).__name__}: {error}"))
    yield from said


def _child(work: Callable[[Say], None], pipe: Connection, errors: int) -> None:
    os.setsid()
    for output in (1, 2):
        os.dup2(errors, output)
    sys.stdout = sys.stderr = os.fdopen(errors, "w", 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    atexit._clear()  # what the other process registered is its own
    gc.freeze()  # a search for garbage would copy what both processes have
    try:
        work(lambda kind, value: pipe.send((kind, value)))
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:
        atexit._run_exitfuncs()  # a forked process does not run them otherwise


def _reason(process: BaseProcess, errors: IO[bytes]) -> str:
    """Returns why a process ended before its work did."""
    if process.exitcode == -signal.SIGKILL:
        return "out of memory"
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip().splitlines()
    return said[-1].strip()[:200] if said else f"exit code {process.exitcode}"


def _end(process: BaseProcess) -> None:
    """Ends a process, and waits until those that it started are gone, so that they do not run beside the next one."""
    assert process.pid is not None
    if process.is_alive():
        process.terminate()
        process.join(END_S)
    until = time.monotonic() + END_S
    try:
        while time.monotonic() < until:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.join()
