"""The section on bulk loads: its tables are what it says, and its cells run."""

from __future__ import annotations

import numpy as np
import pytest

from bench.report.sections.loaded import loads
from bench.subjects.loading import SHAPES, run, tables


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keys", ["uniform", "zipf"])
def test_generated_tables_have_rows_and_keys_as_asked_for(shape: str, keys: str) -> None:
    made = tables(shape, keys, 3_000)
    assert sum(table.num_rows for table in made.values()) == 3_000
    for name, columns in SHAPES[shape][1].items():
        for column in set(columns) & set(SHAPES[shape][2]):
            values = made[name][column].to_numpy()
            assert values.min() >= 0
            assert values.max() < 300
            most = np.bincount(values).max() / len(values)
            assert (most > 0.05) == (keys == "zipf")


def test_a_load_is_measured() -> None:
    said: list[tuple[int, int]] = []
    arguments = {"shape": "two-way", "keys": "uniform", "rows": 40_000, "parts": 2, "file": True}
    result = run({"arguments": arguments, "repeats": 1}, lambda done, of: said.append((done, of)))
    assert said == [(1, 1), (1, 2), (2, 2)]
    assert result["stats"]["input_rows"] == result["updates"] == 40_000
    (row,) = loads([result | {"title": "two-way"}]).rows
    assert row[1] == "40,000"
    assert loads([{"status": "failed"}]).rows == []
