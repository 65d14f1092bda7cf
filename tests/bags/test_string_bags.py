"""Cyclic queries over strings: the values that a bag holds stay in the dictionary, and leave it with the bag's rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import crown

EDGE = {"x": "string", "y": "string"}


@pytest.mark.parametrize(
    "query",
    ["Q(a, b, c) :- G(a, b), G(b, c), G(c, a).", "Q(a, b, c, d) :- G(a, b), G(b, c), G(c, d), G(d, a)."],
    ids=["triangle", "square"],
)
def test_a_snapshot_keeps_the_strings_of_a_bag(query: str, tmp_path: Path) -> None:
    view = crown.view(query, {"G": EDGE})
    loop = {"x": "only in the bag", "y": "only in the bag"}
    dangling = {"x": "no result", "y": "yet"}
    view.apply({"G": [loop, dangling]})
    view.save(tmp_path / "view")
    again = crown.load(tmp_path / "view")
    assert again.to_table().to_pylist() == view.to_table().to_pylist()
    assert again.apply({"G": [{**row, "_weight": -1} for row in (loop, dangling)]}).num_rows == 1
    again.compact()
    assert again.stats()["dictionary"] == 0
