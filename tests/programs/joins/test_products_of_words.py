"""Sums of products are exact on both sides of a word: while a product fits one, it is computed as one."""

from __future__ import annotations

from decimal import Decimal, localcontext
from random import Random
from typing import Any

import pytest

import crown
from tests.marks import seeds

TABLES: dict[str, Any] = {
    "c": {"columns": {"c": "int64"}, "key": ["c"]},
    "o": {"o": "int64", "c": "int64"},  # with copies
    "l": {"columns": {"o": "int64", "n": "int64", "p": "decimal(18,2)", "d": "decimal(18,2)"}, "key": ["o", "n"]},
}
QUERY = "SELECT c.c, SUM(p * (1 - d)) AS s, COUNT(*) AS n FROM c, o, l WHERE c.c = o.c AND o.o = l.o GROUP BY c.c"
DIGITS = (0, 1, 3, 6, 7, 8, 9, 14)  # the sums have at most 38
KEYS = {"c": (3,), "o": (6,), "l": (6, 4)}


def number(random: Random) -> Decimal:
    most = 10 ** random.choice(DIGITS)
    return Decimal(random.choice([1, -1]) * random.choice([most - 1, random.randrange(most)])).scaleb(-2)


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_sums_of_products_are_those_of_decimals_after_every_batch(seed: int) -> None:
    random, view = Random(seed), crown.view(QUERY, TABLES)
    assert "payload" in view.explain(), "the sums are computed below the join"
    live: dict[str, dict[tuple[int, ...], dict[str, Any]]] = {"c": {}, "o": {}, "l": {}}
    for _ in range(12):
        changes: dict[str, list[dict[str, Any]]] = {"c": [], "o": [], "l": []}
        for name in random.choices("col", [1, 2, 5], k=10):
            if live[name] and random.random() < 0.35:
                row = live[name].pop(random.choice(list(live[name])))
                changes[name].append({**row, "_weight": -row["_weight"]})
                continue
            key = tuple(map(random.randrange, KEYS[name]))
            if key not in live[name]:
                columns: dict[str, Any] = {"c": random.randrange(3), "_weight": random.choice([1, 9, 10**6])}
                if name != "o":
                    columns = {"_weight": 1}
                if name == "l":
                    columns |= {"n": key[1], "p": number(random), "d": number(random)}
                live[name][key] = {name if name != "l" else "o": key[0], **columns}
                changes[name].append(live[name][key])
        view.apply(changes)
        expected: dict[int, tuple[Decimal, int]] = {}
        with localcontext(prec=99):
            for line in live["l"].values():
                order = live["o"].get((line["o"],))
                if order is not None and (order["c"],) in live["c"]:
                    s, n = expected.get(order["c"], (Decimal(0), 0))
                    copies = order["_weight"]
                    expected[order["c"]] = s + copies * line["p"] * (1 - line["d"]), n + copies
        assert {row["c"]: (row["s"], row["n"]) for row in view} == expected
        view.check_invariants()
