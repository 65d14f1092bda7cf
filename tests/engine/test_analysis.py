"""``view.explain(analyze=True)``: what it says is what the data and the counters are."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.errors import CrownError
from plans.show import upkeep
from tests.engine.made import join_stats

R = {"a": "int64", "b": "string"}
S = {"b": "string", "c": "int64"}
BAG = "SELECT r.a FROM r, s WHERE r.b = s.b"


def rows(rng: random.Random, n: int) -> dict[str, list[dict[str, Any]]]:
    r = [{"a": rng.randrange(5), "b": rng.choice(["hub", "hub", "x", "y", "z", None])} for _ in range(n)]
    s = [{"b": rng.choice(["hub", "x", "y"]), "c": rng.randrange(9)} for _ in range(n)]
    return {"r": r, "s": s}


def analyzed(view: crown.View) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(view.explain(analyze=True, format="json"))
    return found


def join(view: crown.View) -> dict[str, Any]:
    return next(stage for stage in analyzed(view)["stages"] if stage["kind"].startswith("join") and stage["so_far"])


def test_rows_keys_and_changes_are_those_of_the_data() -> None:
    view = crown.view(BAG, {"r": R, "s": S})
    data = rows(random.Random(1), 60)
    view.apply(data)
    nodes = {node["name"]: node for node in join(view)["so_far"]["nodes"]}
    known = [row for row in data["r"] if row["b"] is not None]
    assert nodes["r"]["rows"] == len({tuple(row.values()) for row in known})
    assert nodes["s"]["groups"] == len({row["b"] for row in [*known, *data["s"]]})
    assert nodes["s"]["updates"] == len(data["s"])


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("SELECT n.a, m.c FROM n JOIN m ON n.b = m.b", "one native call"),
        ("SELECT DISTINCT n.a, n.b, m.c FROM n JOIN m ON n.b = m.b", "one native call"),
        ("SELECT a, SUM(b) AS s FROM n GROUP BY a", "one native call"),
        ("SELECT a, COUNT(*) AS k FROM r GROUP BY a", "one native call"),
        ("SELECT a, COUNT(*) AS k, SUM(c) AS s FROM n JOIN m ON n.b = m.b GROUP BY a", "one native call"),
        ("SELECT a, SUM(b + 1) AS s FROM n WHERE a * 2 > b GROUP BY a", "one native call"),
        ("SELECT a, COUNT(DISTINCT c) AS k FROM n JOIN m ON n.b = m.b GROUP BY a", "one native call"),
        ("SELECT a, b FROM n EXCEPT SELECT b, c FROM m", "one native call"),
        ("SELECT a, b FROM n UNION ALL SELECT b, c FROM m", "one native call"),
        (BAG, "one native call"),
        (
            "SELECT a, MEDIAN(c) AS s FROM n JOIN m ON n.b = m.b GROUP BY a",
            "stage 0: one native call; "
            "stage 1: steps: the groups have HAVING or columns without native form, or percentiles or texts in order",
        ),
        ("SELECT a, MIN(c) AS s FROM n JOIN m ON n.b = m.b GROUP BY a", "one native call"),
        ("SELECT n.a, m.c FROM n LEFT JOIN m ON n.b = m.b", "one native call"),
        ("SELECT a, COUNT(*) AS k FROM n GROUP BY a ORDER BY k LIMIT 3", "one native call"),
        (
            "SELECT x.a, y.a AS b, z.a AS c FROM n x, n y, n z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
            "steps: the join has a bag",
        ),
        (
            "SELECT a, COUNT(*) AS k FROM n WHERE SQRT(b) > 1 GROUP BY a",
            "steps: (SQRT(CAST(b AS DOUBLE))) > 1.0e0, a condition on rows of n, has no native form",
        ),
        (
            "SELECT a, MODE(k) OVER (ORDER BY a) AS r FROM (SELECT a, COUNT(*) AS k FROM n GROUP BY a) t",
            "stage 0: one native call; stages 1 to 2: steps: MODE over this frame has no native form (stage 1)",
        ),
    ],
)
def test_how_a_batch_is_applied_is_said(query: str, path: str) -> None:
    whole = {"n": {"a": "int64", "b": "int64"}, "m": {"b": "int64", "c": "int64"}}
    view = crown.view(query, {"r": R, "s": S, **whole})
    assert analyzed(view)["path"] == path
    assert f"batch {path}" in " ".join(view.explain(analyze=True).split())
    assert all(f"batch {segment}" in " ".join(view.explain().split()) for segment in path.split("; "))
    assert json.loads(view.explain(format="json"))["explained"]["batch"] == path.split("; ")


def test_the_hottest_keys_are_those_with_most_rows_above() -> None:
    view = crown.view(BAG, {"r": R, "s": S})
    data = rows(random.Random(2), 80)
    view.apply(data)
    fans = Counter(b for _, b in {(row["a"], row["b"]) for row in data["r"] if row["b"] is not None})
    hot = [key for key in join(view)["hottest"] if key["child"] == "s"]
    assert hot[0]["parents"] == max(fans.values())
    assert all(fans[key["key"]["b"]] == key["parents"] for key in hot)
    assert [key["parents"] for key in hot] == sorted((key["parents"] for key in hot), reverse=True)


def test_a_change_of_a_hot_key_touches_its_rows() -> None:
    view = crown.view(BAG, {"r": R, "s": S})
    view.apply({"r": [{"a": i, "b": "hub"} for i in range(30)], "s": [{"b": "hub", "c": 1}]})
    view.apply({"s": [{"b": "hub", "c": 2}]})
    last = join(view)["last"]
    assert last["updates"] == 1
    assert {node["name"]: node["touched"] for node in last["nodes"]}["s"] == 30
    assert last["emitted"] == 30
    before = join(view)["so_far"]["emitted"]
    view.to_table()
    assert join(view)["last"]["emitted"] == 30, "what is enumerated later is not of the batch"
    assert join(view)["so_far"]["emitted"] > before


def test_a_refused_batch_leaves_the_last_one() -> None:
    view = crown.view("SELECT DISTINCT r.a, s.c FROM r, s WHERE r.b = s.b", {"r": R, "s": S}, on_missing="raise")
    assert analyzed(view)["seconds"] is None
    view.apply({"r": [{"a": 1, "b": "x"}]})
    last = join(view)["last"]
    with pytest.raises(CrownError):
        view.apply({"s": [{"b": "x", "c": 1, "_weight": -1}]})
    assert join(view)["last"] == last
    assert analyzed(view)["batches"] == 1


def test_a_rewrite_is_offered_only_where_the_data_allow_it_and_does_what_it_says() -> None:
    view = crown.view(BAG, {"r": R, "s": S})
    view.apply({"r": [{"a": i, "b": "hub"} for i in range(9)], "s": [{"b": "hub", "c": 1}, {"b": "x", "c": 1}]})
    offered = join(view)["rewrites"]
    assert any(line.startswith("declare the key (b) of s: ") for line in offered)
    assert any(line.startswith("add DISTINCT") for line in offered)
    view.apply({"s": [{"b": "hub", "c": 2}]})
    assert not any("of s:" in line for line in join(view)["rewrites"]), "hub is there twice, the data speak against it"
    followed = crown.view(BAG, {"r": R, "s": {"columns": S, "key": ["b"]}})
    assert "first order" in view.explain()
    assert "first order" not in followed.explain()
    followed.apply({"s": [{"b": "hub", "c": 1}]})
    assert not [line for line in join(followed)["rewrites"] if line.startswith("declare")]


def test_no_key_is_suggested_that_the_data_break() -> None:
    view = crown.view("SELECT r.a FROM r, s WHERE r.b = s.b AND s.c > 0", {"r": R, "s": S})
    view.apply({"r": [{"a": i, "b": "hub"} for i in range(9)], "s": [{"b": "hub", "c": i} for i in range(1, 5)]})
    assert not [line for line in join(view)["rewrites"] if line.startswith("declare")]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("SELECT a, COUNT(*) AS n, MIN(c) AS m FROM r LEFT JOIN s ON r.b = s.b GROUP BY a", {}),
        ("SELECT DISTINCT r.a, s.c FROM r, s WHERE r.b = s.b", {}),
        ("SELECT DISTINCT r.a, s.c FROM r, s WHERE r.b = s.b", {"threads": 3}),
        ("SELECT a FROM r UNION SELECT c FROM s", {}),
        ("SELECT DISTINCT x.a FROM r x, r y, r z WHERE x.b = y.b AND y.a = z.a AND z.b = x.b", {}),
    ],
)
def test_every_kind_of_engine_is_analyzed(query: str, options: dict[str, Any], tmp_path: Path) -> None:
    view = crown.view(query, {"r": R, "s": S}, **options)
    view.explain(analyze=True)
    data = rows(random.Random(3), 40)
    used = {table.name for table in view.plan.tables}
    view.apply({name: given for name, given in data.items() if name in used})
    found, text = analyzed(view), view.explain(analyze=True)
    assert found["verdict"] == upkeep.verdict(view._engine.plan)
    assert " ".join(found["verdict"].split()) in " ".join(text.split())
    assert found["seconds"] > 0
    assert sum(line.startswith("stage ") for line in text.splitlines()) == len(found["stages"])
    assert found["bytes"] == view.stats()["live_bytes"]
    assert 0 < sum(stage["bytes"] for stage in found["stages"]) <= found["bytes"]
    view.save(tmp_path / "state")
    again = analyzed(crown.load(tmp_path / "state"))
    assert again["stages"][0]["holds"] == found["stages"][0]["holds"]
    assert again["seconds"] is None


def test_forms_and_unknown_ones() -> None:
    view = crown.view(BAG, {"r": R, "s": S})
    assert view.explain(format="html").startswith("<!DOCTYPE html>")
    assert view.explain(format="mermaid").startswith("flowchart TD")
    assert json.loads(view.explain(format="json"))["explained"]["verdict"].startswith("incremental: ")
    with pytest.raises(CrownError, match="format must be one of text, json with analyze, not 'html'"):
        view.explain(analyze=True, format="html")
    with pytest.raises(CrownError, match="not 'pdf'"):
        view.explain(format="pdf")


def test_values_are_decoded() -> None:
    kinds = {"k": "date", "v": "int64"}
    view = crown.view("SELECT x.v FROM t x, t y WHERE x.k = y.k", {"t": kinds})
    view.apply({"t": pa.table({"k": pa.array([1, 1, 2], pa.date32()), "v": [1, 2, 3]})})
    assert "k=datetime.date(1970, 1, 2)" in view.explain(analyze=True)
    assert join(view)["hottest"][0]["key"] == {"k": "1970-01-02"}


def test_a_bag_says_what_it_has_done() -> None:
    view = crown.view("SELECT DISTINCT x.a FROM t x, t y, t z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
                      {"t": {"a": "int64", "b": "int64"}})  # fmt: skip
    view.apply({"t": [{"a": i % 3, "b": (i + 1) % 3} for i in range(3)]})
    (bag,) = join(view)["bags"].values()
    assert bag == next(iter(join_stats(view)["bags"].values()))
    assert any(line.startswith("  bag       bag[") for line in view.explain(analyze=True).splitlines())


T = {"k": "int64", "x": "int64", "at": "timestamp_ntz"}
ORDERED = {
    "over (numbering)": "SELECT k, RANK() OVER (PARTITION BY k ORDER BY x) AS r FROM t",
    "over (running)": "SELECT k, SUM(x) OVER (PARTITION BY k ORDER BY x) AS s FROM t",
    "over (frame)": "SELECT k, MIN(x) OVER (PARTITION BY k ORDER BY x ROWS 2 PRECEDING) AS m FROM t",
    "over (pick)": "SELECT k, LAG(x) OVER (PARTITION BY k ORDER BY x) AS b FROM t",
    "over (pick, frame)": "SELECT LAG(x) OVER (ORDER BY x) AS b, AVG(x) OVER (ORDER BY x ROWS 1 PRECEDING) AS a FROM t",
    "over (ASOF join)": "SELECT t.k, t.x, u.x AS y FROM t ASOF JOIN u ON t.k = u.k AND t.at >= u.at",
    "over (sessions)": "SELECT k, COUNT(*) AS n FROM t GROUP BY k, session_window(at, '5 minutes')",
    "band join": "SELECT t.x, SUM(u.x) AS s FROM t, u WHERE t.k = u.k AND t.x < u.x GROUP BY t.x",
    "top-k": "SELECT k, x FROM t ORDER BY x LIMIT 3",
    "group (percentile)": "SELECT k, MEDIAN(x) AS m FROM t GROUP BY k",
}


@pytest.mark.parametrize("kind", ORDERED)
def test_an_ordered_stage_is_named_by_what_it_does_and_counts_its_work(kind: str, tmp_path: Path) -> None:
    view = crown.view(ORDERED[kind], {"t": T, "u": T})
    text = view.explain()
    assert f"   {kind}" in text
    assert "cost O(log n) per change" in text or "update    O(log n) per change" in text

    def stage(of: crown.View) -> dict[str, Any]:
        return next(stage for stage in analyzed(of)["stages"] if stage["kind"] == kind)

    rng, moment, used = random.Random(kind), datetime(2020, 1, 1), [table.name for table in view.plan.tables]
    assert stage(view)["last"] is None

    def batch(n: int) -> dict[str, Any]:
        def row() -> dict[str, Any]:
            return {"k": rng.randrange(3), "x": rng.randrange(50), "at": moment + timedelta(minutes=rng.randrange(99))}

        return {name: [row() for _ in range(n)] for name in used}

    view.apply(batch(40))
    first = stage(view)["so_far"]
    delta = view.apply(batch(1))
    last, so_far = stage(view)["last"], stage(view)["so_far"]
    assert last["updates"] == len(used)
    assert last["touched"] > 0
    assert {name: so_far[name] - first[name] for name in ("updates", "touched", "emitted")} == {
        name: last[name] for name in ("updates", "touched", "emitted")
    }
    if f"   {kind}, the result" in text:
        assert last["emitted"] == delta.num_rows
    view.save(tmp_path / "state")
    assert stage(crown.load(tmp_path / "state"))["so_far"] == so_far


def test_a_range_is_one_row_of_what_a_stage_passed_on() -> None:
    view = crown.view("SELECT x, ROW_NUMBER() OVER (ORDER BY x) AS n FROM t", {"t": T})
    view.apply({"t": [{"k": 1, "x": x, "at": None} for x in range(0, 2000, 2)]})
    view.apply({"t": [{"k": 1, "x": 1001, "at": None}]}, ranges=True)
    (over,) = [stage for stage in analyzed(view)["stages"] if stage["kind"] == "over (numbering)"]
    assert over["last"]["emitted"] == 2, "the row, and the range of those behind it"
    assert over["last"]["touched"] < 100
    view.apply({"t": [{"k": 1, "x": 1003, "at": None}]})
    (over,) = [stage for stage in analyzed(view)["stages"] if stage["kind"] == "over (numbering)"]
    assert over["last"]["emitted"] > 500
