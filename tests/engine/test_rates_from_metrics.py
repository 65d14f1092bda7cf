"""A running query's own counters steer the next plan."""

from __future__ import annotations

import crown
from plans import plan

EDGES = {"g": {"a": "int64", "b": "int64"}, "h": {"a": "int64", "b": "int64"}}
QUERY = "Q(x, y, z) :- g(x, y), h(y, z)."


def test_updates_are_counted_per_node_and_survive_a_reload(tmp_path: object) -> None:
    view = crown.view(QUERY, EDGES)
    view.apply({"g": [{"a": i, "b": 0} for i in range(5)], "h": [{"a": 0, "b": 1}]})
    view.apply({"g": [{"a": i, "b": 0, "_weight": -1} for i in range(3)]})
    assert view.stats()["updates"] == {"g": 8, "h": 1}
    view.save(f"{tmp_path}/v.crown")
    assert crown.load(f"{tmp_path}/v.crown").stats()["updates"] == {"g": 8, "h": 1}


def test_what_changes_most_gets_the_least_depth() -> None:
    schema = {**EDGES, "k": {"a": "int64", "b": "int64"}}
    query = "Q(w, x, y, z) :- g(w, x), h(x, y), k(y, z)."
    roots = {}
    for busy in ("g", "h", "k"):
        view = crown.view(query, schema)
        for i in range(50):
            view.apply({busy: [{"a": i, "b": i}]})
        for name in schema:
            view.apply({name: [{"a": 100, "b": 100}]})
        roots[busy] = plan(query, schema, rates=view.stats()["updates"]).nodes[0].name
    assert roots == {"g": "[x]", "h": "h", "k": "[y]"}
