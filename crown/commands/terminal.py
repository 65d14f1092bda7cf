"""Prints to terminals: plain ASCII if the encoding requires it, and progress of long operations."""

from __future__ import annotations

import codecs
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

PATIENCE = 2.0
"""Seconds after which a terminal shows that a command is still running."""

_ASCII = {
    "├": "|", "└": "`", "│": "|", "─": "-", "┌": ",", "┐": ".", "┘": "'", "┬": "+", "┴": "+", "┼": "+",
    "Σ": "sum", "λ": "lambda", "√": "sqrt ", "ε": "eps", "θ": "theta", "Δ": "delta ", "ℓ": "l", "∞": "inf",
    "·": "*", "×": "x", "−": "-", "–": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "≠": "<>",
    "→": "->", "←": "<-", "↔": "<->", "∈": " in ", "∪": " + ", "∩": " & ", "⋈": "JOIN", "¹": "^1", "²": "^2",
    "³": "^3", "⁴": "^4", "“": '"', "”": '"', "‘": "'", "’": "'", "✓": "ok", "✗": "no", "▏": "|",
}  # fmt: skip
_ERRORS = "crown.ascii"


def plain(text: str) -> str:
    """Returns a text in ASCII: drawings and mathematical signs as similar characters, all others as ``\\uXXXX``."""
    return "".join(_ASCII.get(sign, sign if sign.isascii() else _escaped(sign)) for sign in text)


def fit(*streams: TextIO) -> None:
    """Makes streams write ``plain`` characters instead of those that their encoding lacks."""
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ERRORS)


def takes(stream: Any, text: str) -> bool:
    """Returns True if the encoding of a stream has all characters of a text."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@contextmanager
def waiting(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Shows on a terminal which command is running and for how long, after ``PATIENCE`` seconds and until something is
    printed. Shows nothing if ``stream``, standard error by default, is not a terminal or is a dumb one."""
    terminal = sys.stderr if stream is None else stream
    if not terminal.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    done, lock = threading.Event(), threading.Lock()
    begun = time.monotonic()

    def show_progress() -> None:
        pause = PATIENCE
        while not done.wait(pause):
            pause = 1.0
            with lock:
                if not done.is_set():
                    terminal.write(f"\r{what}: {time.monotonic() - begun:.0f} s ")
                    terminal.flush()

    def stop() -> None:
        with lock:
            if not done.is_set():
                done.set()
                if time.monotonic() - begun >= PATIENCE:
                    terminal.write("\r\x1b[K")
                    terminal.flush()

    reporter = threading.Thread(target=show_progress, daemon=True)
    reporter.start()
    out = sys.stdout
    sys.stdout = _Announced(out, stop)
    try:
        yield
    finally:
        sys.stdout = out
        stop()
        reporter.join()


class _Announced:
    """A stream that calls ``before`` before each write."""

    def __init__(self, stream: TextIO, before: Any) -> None:
        self._stream = stream
        self._before = before

    def write(self, text: str) -> int:
        self._before()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escaped(sign: str) -> str:
    number = ord(sign)
    if number < 0x10000:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _encoded(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return plain(error.object[error.start : error.end]), error.end


codecs.register_error(_ERRORS, _encoded)
