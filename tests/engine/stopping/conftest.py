"""What stops a batch may strike anywhere: what it leaves behind is put right after each test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def handler_of_interrupts() -> Iterator[None]:
    """Puts Ctrl-C's handler back: an exception anywhere may strike before the product has done so."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
