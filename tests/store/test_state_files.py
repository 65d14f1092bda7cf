"""State in a file of its own, snapshots in the middle of a stream, and what must not be mixed up."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import crown
from crown.errors import CrownError
from tests.engine.made import join_stats
from tests.oracles.expectation import rows

TABLES = {"R": {"a": "int64", "s": "string"}, "S": {"s": "string", "b": "float64"}}
QUERIES = [
    "SELECT DISTINCT a, R.s AS s, b FROM R, S WHERE R.s = S.s",
    "SELECT DISTINCT a, b FROM R, S WHERE R.s = S.s",
    "SELECT DISTINCT R.s AS s FROM R, S WHERE R.s = S.s AND b > 0.5",
    "Q() :- R(a, s), S(s, b).",
]


def batch(source: random.Random) -> dict[str, list[dict[str, object]]]:
    def change(row: dict[str, object]) -> dict[str, object]:
        return {**row, "_weight": source.choice([1, 1, -1])}

    def word() -> str:
        return f"word {source.randrange(12)}"

    return {
        "R": [change({"a": source.randrange(9), "s": word()}) for _ in range(20)],
        "S": [change({"s": word(), "b": source.random()}) for _ in range(10)],
    }


def contents(view: crown.View) -> list[object]:
    return sorted(row for part in view.results() for row in rows(part))


@pytest.mark.parametrize("query", QUERIES)
def test_a_stream_goes_on_after_every_kind_of_restart(query: str, tmp_path: Path) -> None:
    plain = crown.view(query, TABLES)
    moved = crown.view(query, TABLES, path=tmp_path / "state 0")
    source, same = random.Random(4), random.Random(4)
    for step in range(12):
        expected = plain.apply(batch(source))
        found = moved.apply(batch(same))
        columns = expected.column_names
        assert sorted(map(str, found.select(columns).to_pylist())) == sorted(map(str, expected.to_pylist()))
        moved.save(tmp_path / "snapshot")
        moved = crown.load(tmp_path / "snapshot", state_path=None if step % 2 else tmp_path / f"state {step + 1}")
        assert contents(moved) == contents(plain)
        assert moved.plan == plain.plan
        moved.check_invariants()
    assert len(contents(plain)) > 0


def test_a_snapshot_is_a_moment_not_a_link(tmp_path: Path) -> None:
    view = crown.view(QUERIES[0], TABLES)
    view.apply({"R": [{"a": 1, "s": "x"}], "S": [{"s": "x", "b": 0.0}]})
    view.save(tmp_path / "then")
    view.apply({"R": [{"a": 2, "s": "x"}]})
    assert crown.load(tmp_path / "then").count() == 1
    view.save(tmp_path / "then")
    assert crown.load(tmp_path / "then").count() == 2


def test_options_and_counters_survive(tmp_path: Path) -> None:
    view = crown.view(QUERIES[0], TABLES, on_missing="raise")
    view.apply({"R": [{"a": 1, "s": "x"}], "S": [{"s": "x", "b": 0.0}]})
    view.save(tmp_path / "view")
    again = crown.load(tmp_path / "view")
    assert join_stats(again)["s_updates"] == join_stats(view)["s_updates"]
    with pytest.raises(CrownError, match="1 copy of"):
        again.apply({"R": [{"a": 9, "s": "x", "_weight": -1}]})


def test_a_long_stream_of_fresh_strings_does_not_leak() -> None:
    view = crown.view(QUERIES[0], TABLES)
    sizes = []
    for step in range(60):
        fresh = {
            "R": [{"a": i, "s": f"{step} {i}"} for i in range(300)],
            "S": [{"s": f"{step} {i}", "b": 0.5} for i in range(300)],
        }
        view.apply(fresh)
        view.apply({name: [{**row, "_weight": -1} for row in part] for name, part in fresh.items()})
        sizes.append(view.stats()["reserved_bytes"])
    assert sizes[-1] == sizes[len(sizes) // 2]
    view.compact()
    assert view.stats()["dictionary"] == 0
