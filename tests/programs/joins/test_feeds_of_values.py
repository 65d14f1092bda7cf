"""MIN, MAX and DISTINCT over joins, from the feed of the sums or from feeds of their own: both are right, whatever the
cost model thinks of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
import plans
from crown.stages.groups.group import Groups
from crown.store.zset import Zset
from plans.lowering.groups import values
from plans.program import Program
from plans.programs.stages import GroupStage, JoinStage
from plans.search.counted.work import work
from tests.marks import seeds
from tests.plans.lowering.random_sums import TABLES, Writer
from tests.programs.joins.test_sums_in_joins import compare

VALUED = ("MIN({})", "MAX({})", "COUNT(DISTINCT {})", "SUM(DISTINCT {})", "AVG(DISTINCT {})", "MAX({0}) - MIN({0})",
          "VAR_POP(DISTINCT {})", "STDDEV(DISTINCT {})")  # fmt: skip


class Values(Writer):
    """Writes one random query with several of MIN, MAX and DISTINCT."""

    def call(self) -> str:
        if self.rng.random() < 0.35:
            return super().call()
        made = self.rng.choice(VALUED)
        where = f" FILTER (WHERE {self.condition()})" if self.rng.random() < 0.3 and "-" not in made else ""
        return f"CAST({made.format(self.number())}{where} AS DOUBLE)"


def force(way: str, patch: pytest.MonkeyPatch) -> None:
    """Lets the cost model find one way cheaper, or think for itself."""
    numbers = count()
    if way != "as it costs":
        sign = -1 if way == "apart" else 1  # the costs of one feed are asked for first
        patch.setattr(values, "work", lambda _: float(sign * next(numbers)))


@pytest.mark.parametrize("way", ["apart", "together", "as it costs"])
@pytest.mark.parametrize("seed", seeds(5, 50))
def test_random_aggregates_of_values_over_a_join_are_maintained(
    seed: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(way, monkeypatch)
    compare(Values(seed).query(), Random(seed))


def feeds_of(program: Program) -> int:
    return max(1 + len(stage.values) for stage in program.stages if isinstance(stage, GroupStage))


def test_many_random_aggregates_have_several_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [feeds_of(plans.program(Values(seed).query(), TABLES)) > 1 for seed in range(40)]
    assert 8 < sum(chosen) < 36
    force("apart", monkeypatch)
    assert sum(feeds_of(plans.program(Values(seed).query(), TABLES)) > 1 for seed in range(40)) > sum(chosen)


STAR = {"a": {"g": "int64", "x": "int64"}, "b": {"g": "int64", "y": "int64"}, "c": {"g": "int64", "z": "string"}}
BY_STAR = (
    "SELECT g, SUM(x) AS s, MIN(y) AS m, COUNT(DISTINCT z) AS n FROM a JOIN b USING (g) JOIN c USING (g) GROUP BY g"
)


@pytest.mark.parametrize(("way", "most"), [("as it costs", lambda n: 3), ("together", lambda n: n * n)])
def test_events_are_as_many_as_groups_change_not_as_values_combine(
    way: str, most: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    apply = Groups.apply

    def counted(stage: Groups, nets: Sequence[Zset]) -> Zset:
        seen.append(sum(map(len, nets)))
        return apply(stage, nets)

    monkeypatch.setattr(Groups, "apply", counted)
    force(way, monkeypatch)
    for n in (4, 16, 64):
        view = crown.view(BY_STAR, STAR)
        view._engine.pipeline = None  # the steps call the stage
        view.update({"b": {"g": [1] * n, "y": list(range(n))}, "c": {"g": [1] * n, "z": [str(i) for i in range(n)]}})
        view.update({"a": [(1, 5)]})
        seen.clear()
        view.update({"a": [(1, 6)]})
        assert seen == [1 if way == "as it costs" else n * n]
        assert seen[0] <= most(n)
        assert view.get({"g": 1}) == {"g": 1, "s": 11 * n * n, "m": 0, "n": n}


@pytest.mark.parametrize(
    ("query", "apart"),
    [
        (BY_STAR, True),
        ("SELECT g, SUM(x) AS s, MIN(x) AS m FROM a JOIN b USING (g) GROUP BY g", True),
        ("SELECT g, MIN(x) AS l, MAX(y) AS h FROM a JOIN b USING (g) GROUP BY g", True),
        ("SELECT g, MIN(x) AS l, MAX(x) AS h FROM a JOIN b USING (g) GROUP BY g", False),
        ("SELECT g, MIN(x) AS l, COUNT(*) AS n FROM a GROUP BY g", False),
        ("SELECT o.p, SUM(l.q) AS s, MIN(l.q) AS m FROM l JOIN o ON l.o = o.o GROUP BY o.p", False),
    ],
)
def test_feeds_are_apart_where_products_would_drive_one_alone(query: str, apart: bool) -> None:
    orders = {"o": {"columns": {"o": "int64", "p": "int64"}, "key": ["o"]}, "l": {"o": "int64", "q": "int64"}}
    assert (feeds_of(plans.program(query, {**STAR, **orders})) > 1) == apart


def test_explain_says_which_way_was_taken_and_what_the_other_costs() -> None:
    text = " ".join(crown.view(BY_STAR, STAR).explain().split())
    assert "MIN(y), COUNT(DISTINCT z): separate feeds; a change of every relation costs about 128 rows this way" in text
    assert "505 the other way" in text
    assert "values of stage 1 (g, y) values of stage 2 (g, z)" in text
    query = "SELECT a.x, SUM(b.y) AS s, MIN(b.y) AS m FROM a JOIN b USING (g) GROUP BY a.x"
    text = " ".join(crown.view(query, STAR).explain().split())
    assert "MIN(y): from the feed of the sums; a change of every relation costs about" in text


def test_work_grows_with_the_rows_that_a_change_is_expected_to_touch() -> None:
    def cost(query: str) -> float:
        made = plans.program(query, STAR)
        return work(stage.plan for stage in made.stages if isinstance(stage, JoinStage))

    few, some, many = (
        cost(f"SELECT DISTINCT {columns} FROM a JOIN b USING (g) JOIN c USING (g)")
        for columns in ("g", "g, x", "g, x, y")
    )
    assert few < some < many
    assert cost("SELECT g, SUM(x) AS s FROM a JOIN b USING (g) GROUP BY g") < cost(
        "SELECT x, y FROM a JOIN b USING (g)"
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_values_of_all_feeds_are_saved_and_go_on(tmp_path: Path, threads: int) -> None:
    view = crown.view(BY_STAR, STAR, threads=threads)
    view.update({"a": [(1, 5), (2, 7)], "b": [(1, 3), (1, 2), (2, 9)], "c": [(1, "u"), (1, "v"), (2, "u")]})
    view.save(tmp_path / "view")
    again = crown.load(tmp_path / "view")
    for one in (view, again):
        delta = one.apply({"b": [{"g": 1, "y": 2, "_weight": -1}], "c": [(1, "w")]}).to_pylist()
        assert sorted((row["m"], row["n"], row["_weight"]) for row in delta) == [(2, 2, -1), (3, 3, 1)]
        assert one.get({"g": 1}) == {"g": 1, "s": 15, "m": 3, "n": 3}
        one.check_invariants()
