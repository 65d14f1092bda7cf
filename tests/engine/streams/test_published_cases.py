"""Small cases with known deltas: the paper's running example, the published 3-hop sequences, known pitfalls.

Each case is data: tables, query, and steps ``(sign, relation, row) → expected delta``. Every implementation runs it.
"""

from __future__ import annotations

from collections import Counter

import pytest

import plans
from tests.engine.comparison import SideBySide
from tests.models import ReferenceView

EDGE = {"x": "int64", "y": "int64"}

THREE_HOP = (
    {"G1": EDGE, "G2": EDGE, "G3": EDGE},
    "Q(a, b, c, d) :- G1(a, b), G2(b, c), G3(c, d).",
)
FOUR_HOP = (
    {"R1": EDGE, "R2": EDGE, "R3": EDGE, "R4": EDGE},
    "Q(x1, x2, x3, x4) :- R1(x1, x2), R2(x2, x3), R3(x3, x4), R4(x4, x5).",
)
TWO_HOP = ({"R1": EDGE, "R2": EDGE}, "Q(x1, x2, x3) :- R1(x1, x2), R2(x2, x3).")
BOUNDARY = (
    {"R1": {"a": "int64"}, "R2": {"a": "int64", "b": "int64", "x": "int64"}},
    "Q(a, b) :- R1(a), R2(a, b, x).",
)

DUMBBELL = "Q(a, b, c, d, e, f) :- G(a, b), G(b, c), G(c, a), G(c, d), G(d, e), G(e, f), G(f, d)."
BRIDGES = "Q(c, d) :- G(a, b), G(b, c), G(c, a), G(c, d), G(d, e), G(e, f), G(f, d)."

RUNNING_EXAMPLE = [
    *[("+", "R1", row, {}) for row in [(1, 2), (2, 2), (3, 3)]],
    *[("+", "R2", row, {}) for row in [(1, 2), (2, 2), (4, 3), (1, 1), (2, 4), (1, 4)]],
    *[("+", "R3", row, {}) for row in [(1, 1), (2, 5), (3, 3), (1, 2), (4, 4)]],
    *[("+", "R4", row, {}) for row in [(1, 1), (2, 2), (3, 3)]],
    ("+", "R4", (4, 4), {(1, 2, 4, 4): 1, (2, 2, 4, 4): 1}),
]
"""Figure 3(a) of the paper, loaded row by row."""

CASES = {
    "three hops, results joined by a late middle edge": (
        *THREE_HOP,
        [
            ("+", "G1", (1, 2), {}),
            ("+", "G2", (2, 3), {}),
            ("+", "G3", (3, 4), {(1, 2, 3, 4): 1}),
            ("+", "G1", (0, 2), {(0, 2, 3, 4): 1}),
            ("+", "G3", (5, 6), {}),
            ("+", "G3", (5, 7), {}),
            ("+", "G2", (2, 5), {(0, 2, 5, 6): 1, (1, 2, 5, 6): 1, (0, 2, 5, 7): 1, (1, 2, 5, 7): 1}),
            ("-", "G1", (0, 2), {(0, 2, 5, 6): -1, (0, 2, 5, 7): -1, (0, 2, 3, 4): -1}),
            ("-", "G2", (2, 3), {(1, 2, 3, 4): -1}),
        ],
    ),
    "three hops, middle first": (
        *THREE_HOP,
        [
            ("+", "G2", (1, 2), {}),
            ("+", "G1", (1, 1), {}),
            ("+", "G3", (2, 2), {(1, 1, 2, 2): 1}),
            ("+", "G2", (1, 3), {}),
            ("+", "G3", (3, 1), {(1, 1, 3, 1): 1}),
            ("-", "G3", (2, 2), {(1, 1, 2, 2): -1}),
            ("-", "G1", (1, 1), {(1, 1, 3, 1): -1}),
        ],
    ),
    "the paper's running example (Figure 3, Example 5.8)": (
        *FOUR_HOP,
        [
            *RUNNING_EXAMPLE,
            ("+", "R1", (1, 1), {(1, 1, 1, 1): 1, (1, 1, 1, 2): 1, (1, 1, 4, 4): 1}),
            ("-", "R4", (1, 1), {(1, 1, 1, 1): -1}),
            ("+", "R1", (4, 1), {(4, 1, 1, 2): 1, (4, 1, 4, 4): 1}),
        ],
    ),
    "a deletion that reaches the root is one witness, not two": (
        *TWO_HOP,
        [
            ("+", "R1", (1, 1), {}),
            ("+", "R2", (1, 5), {(1, 1, 5): 1}),
            ("-", "R1", (1, 1), {(1, 1, 5): -1}),
        ],
    ),
    "a second derivation of a projected tuple is no news": (
        *BOUNDARY,
        [
            ("+", "R1", (1,), {}),
            ("+", "R2", (1, 5, 7), {(1, 5): 1}),
            ("+", "R2", (1, 5, 8), {}),
            ("-", "R2", (1, 5, 7), {}),
            ("-", "R2", (1, 5, 8), {(1, 5): -1}),
        ],
    ),
    "inserting again and deleting what is not there change nothing": (
        *TWO_HOP,
        [
            ("+", "R1", (1, 1), {}),
            ("+", "R2", (1, 5), {(1, 1, 5): 1}),
            ("+", "R1", (1, 1), {}),
            ("-", "R2", (2, 2), {}),
            ("-", "R1", (1, 1), {}),
            ("-", "R1", (1, 1), {(1, 1, 5): -1}),
            ("-", "R1", (1, 1), {}),
            ("+", "R1", (1, 1), {(1, 1, 5): 1}),
        ],
    ),
    "dumbbell": (
        {"G": EDGE},
        DUMBBELL,
        [
            ("+", "G", (1, 2), {}),
            ("+", "G", (2, 3), {}),
            ("+", "G", (3, 1), {(1, 2, 3, 1, 2, 3): 1, (3, 1, 2, 3, 1, 2): 1, (2, 3, 1, 2, 3, 1): 1}),
            ("+", "G", (3, 4), {}),
            ("+", "G", (4, 5), {}),
            ("+", "G", (5, 6), {}),
            (
                "+",
                "G",
                (6, 4),
                {(1, 2, 3, 4, 5, 6): 1, (4, 5, 6, 4, 5, 6): 1, (6, 4, 5, 6, 4, 5): 1, (5, 6, 4, 5, 6, 4): 1},
            ),
            ("-", "G", (3, 4), {(1, 2, 3, 4, 5, 6): -1}),
        ],
    ),
    "dumbbell, the bridge only": (
        {"G": EDGE},
        BRIDGES,
        [
            ("+", "G", (1, 2), {}),
            ("+", "G", (2, 3), {}),
            ("+", "G", (3, 1), {(3, 1): 1, (2, 3): 1, (1, 2): 1}),
            ("+", "G", (3, 4), {}),
            ("+", "G", (4, 5), {}),
            ("+", "G", (5, 6), {}),
            ("+", "G", (6, 4), {(3, 4): 1, (6, 4): 1, (5, 6): 1, (4, 5): 1}),
            ("-", "G", (3, 4), {(3, 4): -1}),
        ],
    ),
    "dumbbell of one self-loop": (
        {"G": EDGE},
        DUMBBELL,
        [
            ("+", "G", (2, 2), {(2, 2, 2, 2, 2, 2): 1}),
            ("+", "G", (2, 2), {}),
            ("-", "G", (2, 2), {}),
            ("-", "G", (2, 2), {(2, 2, 2, 2, 2, 2): -1}),
        ],
    ),
    "a self-loop joins with itself in every copy": (
        {"G": EDGE},
        "Q(a, b, c, d) :- G(a, b), G(b, c), G(c, d).",
        [
            ("+", "G", (2, 2), {(2, 2, 2, 2): 1}),
            ("+", "G", (1, 2), {(1, 2, 2, 2): 1}),
            ("+", "G", (2, 3), {(2, 2, 2, 3): 1, (1, 2, 2, 3): 1}),
            ("-", "G", (2, 2), {(2, 2, 2, 2): -1, (1, 2, 2, 2): -1, (2, 2, 2, 3): -1, (1, 2, 2, 3): -1}),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_deltas_are_the_published_ones(case: str) -> None:
    tables, query, steps = CASES[case]
    sides = SideBySide(plans.plan(query, tables), tables)
    for sign, relation, row, delta in steps:
        assert sides.step({relation: [(row, 1 if sign == "+" else -1)]}) == Counter(delta)
    sides.step_by_removal()


def test_views_of_the_running_example_are_those_of_figure_3() -> None:
    tables, query = FOUR_HOP
    plan = plans.plan(query, tables)
    view = ReferenceView(plan)
    for _, relation, row, _ in RUNNING_EXAMPLE:
        view.apply({relation: [dict(zip(EDGE, row, strict=True))]})
    at = {node.relation or node.name: e for e, node in enumerate(plan.nodes)}
    semi_joined = {row for group in view.groups[at["R2"]].values() for row in group.children}
    derivations = {
        name: {key[0]: len(group.children) for key, group in view.groups[at[name]].items() if group.children}
        for name in ("R2", "R3")
    }
    assert plan.nodes[0].kind == "virtual"
    assert plan.nodes[0].attributes == ("x3",)
    assert semi_joined == {(2, 2), (2, 4)}
    assert derivations == {"R2": {4: 1, 2: 1}, "R3": {1: 2, 3: 1, 4: 1}}
    assert view.counter[0] == {(1,): 1, (2,): 1, (3,): 1, (4,): 2}


def test_views_change_as_in_figures_3b_and_3c() -> None:
    tables, query = FOUR_HOP
    plan = plans.plan(query, tables)
    view = ReferenceView(plan)
    for _, relation, row, _ in RUNNING_EXAMPLE:
        view.apply({relation: [dict(zip(EDGE, row, strict=True))]})
    before = view.s_updates
    view.apply({"R1": [{"x": 1, "y": 1}]})
    # (1,1) of R1; (1,2), (1,1), (1,4) of R2; (1) of the root
    assert view.s_updates - before == 5
    before = view.s_updates
    view.apply({"R4": [{"x": 1, "y": 1, "_weight": -1}]})
    # (1,1) of R4 and (1,1) of R3; there the key keeps a second derivation
    assert view.s_updates - before == 2
