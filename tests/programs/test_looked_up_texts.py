"""Conditions and whole numbers of one text: Arrow decides each text once, and kernels look it up by its code."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from crown.errors import ChangeError
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines import pipeline
from crown.stages.kernels.groups import batch as group_batch
from crown.store import lookups
from tests.programs.stepwise import Changes, Stepwise
from tests.programs.test_native_chains import TABLES

JOINED = "SELECT mode LIKE '%7%' AS m, COUNT(*) AS n FROM o, l WHERE o.ok = l.ok GROUP BY 1"
PLAIN = "SELECT LENGTH(mode) AS m, COUNT(*) AS n FROM l WHERE mode LIKE '%1%' OR mode IS NULL GROUP BY 1"


def lines(texts: list[str | None]) -> Changes:
    """Returns lines of orders with these texts."""
    return [((i, 1, Decimal("2.50"), None, i, 1.0, text, None, None), 1) for i, text in enumerate(texts)]


def removed(changes: Changes) -> Changes:
    return [(row, -1) for row, _ in changes]


def view(query: str, orders: int = 0) -> Stepwise:
    both = Stepwise(query, TABLES)
    both.apart |= {"dictionary", "live_bytes"}
    if query is JOINED:
        both.apply({"o": [((i, 1, None, "p"), 1) for i in range(orders)]})
    return both


@pytest.mark.parametrize("query", [PLAIN, JOINED])
def test_more_texts_than_a_table_has_room_for(query: str) -> None:
    both = view(query, orders=3_001)
    for length in (3, 20):
        given = lines([None, *(f"{i:0{length}}" for i in range(3_000))])
        both.apply({"l": given})
        both.is_duckdbs()
        both.apply({"l": removed(given[:2_000])})
        both.apply({"l": removed(given[2_000:])})
    assert both.results[group_batch.DONE] + both.results[kernels.MESSAGE_TOO_LARGE] >= 3


@pytest.mark.parametrize("query", [PLAIN, JOINED])
def test_a_code_that_another_text_gets_is_decided_again(query: str) -> None:
    both = view(query, orders=167)
    for first in (7_000_000, 1_000_000, 5_000_000):
        given = lines([f"text number {first + i}" for i in range(0, 500, 3)])
        both.apply({"l": given})
        both.is_duckdbs()
        both.apply({"l": removed(given)})
        for one in (both.view, both.other):
            assert one.compact() > 0


def test_tables_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_FEWEST", 1 << 6)
    monkeypatch.setattr(lookups, "_MOST", 1 << 8)
    both = view(PLAIN)
    for batch in range(20):
        given = lines([f"{batch}{i:03}" for i in range(60)])
        both.apply({"l": given})
        both.apply({"l": removed(given)})
    found = [len(one.table) for one in both.view._engine.memory.dictionary._lookups.values()]
    assert found
    assert max(found) <= 3 << 8


@pytest.mark.parametrize("query", [PLAIN, JOINED])
def test_a_batch_whose_texts_cannot_be_decided_is_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both = view(query, orders=51)
    both.apply({"l": lines(["a1", "b"])})

    def refused(*_: object) -> None:
        raise ChangeError("a text is too difficult")

    more = both.given({"l": [((50, 2, None, None, 1, 1.0, "c1", None, None), 1)]})
    with monkeypatch.context() as patch:
        patch.setattr(lookups, "encode", refused)
        both.refused(more, ChangeError)
    both.apply({"l": [((50, 2, None, None, 1, 1.0, "c1", None, None), 1)]})
    both.is_duckdbs()


def test_batches_of_new_texts_are_left_to_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """These test texts before they store them. The call tries again later."""
    monkeypatch.setattr(pipeline, "_PAUSED_BATCHES", 4)
    both = view(PLAIN)
    for batch in range(12):
        given = lines([f"text {batch} {i} of a line" for i in range(20)])
        both.apply({"l": [((row[0], batch, *row[2:]), 1) for row, _ in given]})
    assert sum(both.results.values()) == 4, both.results
    both.is_duckdbs()


def test_texts_that_several_expressions_ask_for_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    learn = lookups.Lookup.learn

    def noted(lookup: lookups.Lookup, known: dict[bytes, pa.Array]) -> int:
        found = learn(lookup, known)
        asked.append((found, len(known)))
        return found

    monkeypatch.setattr(lookups.Lookup, "learn", noted)
    both = view(
        "SELECT ok, " + ", ".join(f"SPLIT_PART(mode, '/', {place}) AS p{place}" for place in (1, 2, 3)) + " FROM l"
    )
    both.apply({"l": lines([f"{i:05}/abcdefghij/{i}" for i in range(97)])})
    both.is_duckdbs()
    assert asked.count((97, 1)) == 3 * len((both.view, both.other))
