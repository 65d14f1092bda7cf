"""What no row refers to any more takes no more room in the dictionary than what is there, however long texts are."""

from __future__ import annotations

import pytest

import crown

ROWS = 100


@pytest.mark.parametrize("length", [20, 700, 5000])
def test_a_stream_of_fresh_texts_with_deletes_takes_bounded_memory(length: int) -> None:
    view = crown.view("SELECT c, COUNT(*) AS n FROM s GROUP BY c", schema={"s": {"c": "string"}})
    gone: list[str] = []
    for turn in range(60):
        fresh = [f"{turn} {row} ".ljust(length, "x") for row in range(ROWS)]
        view.apply({"s": [{"c": c, "_weight": 1} for c in fresh] + [{"c": c, "_weight": -1} for c in gone]})
        gone = fresh
        assert view.stats()["live_bytes"] < 4 * ROWS * (length + 200) + 2**17
    assert view.stats()["dictionary"] < 60 * ROWS / 2
    view.check_invariants()
