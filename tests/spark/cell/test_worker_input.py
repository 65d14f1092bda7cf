"""Rows that are read ahead: the same rows, so many bytes of them, and the error that ended them."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from spark_jobs.cell.worker_input import read_ahead

BATCHES = [pa.record_batch({"a": pa.array(range(8 * i, 8 * i + 8), pa.int64())}) for i in range(20)]
SIZE = BATCHES[0].nbytes


def until(condition):
    """Waits until it holds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("most", [0, 1, 3 * SIZE, 1 << 30])
def test_the_same_batches_come_in_the_same_order(most):
    assert list(read_ahead(iter(BATCHES), most)) == BATCHES
    assert list(read_ahead(iter([]), most)) == []


def test_no_more_is_read_ahead_than_was_said():
    read = []
    given = read_ahead((read.append(i) or batch for i, batch in enumerate(BATCHES)), 3 * SIZE)
    for used in range(1, 5):
        next(given)
        until(lambda used=used: len(read) == used + 4)  # three are held, and the next one waits
    time.sleep(0.02)
    assert len(read) == 8
    given.close()
    until(lambda: not any(thread.name == "input" for thread in threading.enumerate()))
    assert len(read) == 8


def test_what_ends_the_rows_comes_after_them():
    def cut():
        yield from BATCHES[:2]
        raise pa.ArrowInvalid("cut")

    given = read_ahead(cut(), 1 << 20)
    assert [next(given), next(given)] == BATCHES[:2]
    with pytest.raises(pa.ArrowInvalid, match="cut"):
        next(given)
