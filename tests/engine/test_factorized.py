"""Factorized rows: what they look like, what they save, that any buffer will do, and what has none.

That they unfold to the plain rows of random queries and streams is tested where all implementations are: see
``tests.engine.views``.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.engine import buffers
from tests.engine.views import Row
from tests.oracles.expectation import net, rows

PAIR = {"a": "int64", "b": "int64"}
STAR = "Q(k, x, y, z) :- R(k, x), S(k, y), T(k, z)."
HOPS = "Q(a, b, c, d, e) :- R(a, b), R(b, c), R(c, d), R(d, e)."


def _edges(seed: int, n: int, nodes: int, weight: int = 1) -> pa.Table:
    drawn = np.random.default_rng(seed).integers(0, nodes, (n, 2))
    return pa.table({"a": drawn[:, 0], "b": drawn[:, 1], "_weight": np.full(n, weight)})


def test_a_row_per_key_and_a_list_per_branch() -> None:
    view = crown.view(STAR, {"R": PAIR, "S": {"a": "int64", "b": "string"}, "T": PAIR})
    view.update({"R": [(1, 2), (1, 3)], "S": [(1, "u"), (1, None)], "T": [(1, 8), (1, 9), (2, 9)]})
    assert view.apply({"S": [(1, "w")]}, factorized=True).to_pylist() == [
        {"k": 1, "x": [2, 3], "y": ["w"], "z": [8, 9], "_weight": 1}
    ]
    (batch,) = view.results(factorized=True)
    assert batch.to_pylist() == [{"k": 1, "x": [2, 3], "y": ["u", None, "w"], "z": [8, 9]}]
    assert batch.schema.equals(view.factorized_schema, check_metadata=True)
    branches = [(field.metadata or {}).get(b"crown.branch") for field in view.factorized_schema]
    assert branches[0] is None
    assert len({*branches[1:]}) == 3
    assert view.apply({"R": [(1, 2, -1), (1, 3, -1)]}, factorized=True)["_weight"].to_pylist() == [-1, -1]
    assert not list(view.results(factorized=True))
    assert view.apply({"R": []}, factorized=True).num_rows == 0


@pytest.mark.parametrize("cells", [16, 256])
@pytest.mark.parametrize(("query", "names"), [(STAR, "RST"), (HOPS, "R")])
def test_a_buffer_that_is_too_small_for_a_row_grows(
    query: str, names: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = crown.view(query, dict.fromkeys(names, PAIR))
    monkeypatch.setattr(buffers, "BLOCK_CELLS", cells)
    view = crown.view(query, dict.fromkeys(names, PAIR))
    for step in range(5):
        come = {name: _edges(10 * step + i, 22, 8) for i, name in enumerate(names)}
        gone = {name: _edges(10 * step - 10 + i, 22, 8, -1) for i, name in enumerate(names)} if step else come
        changes = {name: pa.concat_tables([come[name], gone[name]]) for name in names} if step else come
        assert net([crown.unfold(view.apply(changes, factorized=True))]) == net([plain.apply(changes)])
        found = Counter(row for batch in view.results(factorized=True) for row in rows(crown.unfold(batch)))
        assert found == Counter(rows(plain.to_table()))
    view.check_invariants()


@pytest.mark.parametrize(("query", "names"), [(STAR, "RST"), (HOPS, "R")])
def test_products_take_a_third_of_the_bytes_at_most(query: str, names: str) -> None:
    views = [crown.view(query, dict.fromkeys(names, PAIR)) for _ in range(2)]
    changes = {name: _edges(i, 600, 60) for i, name in enumerate(names)}
    plain, folded = views[0].apply(changes), views[1].apply(changes, factorized=True)
    assert 3 * folded.nbytes < plain.nbytes
    whole = sum(batch.nbytes for batch in views[1].results(factorized=True))
    assert 3 * whole < views[0].to_table().nbytes


def test_a_batch_that_is_refused_leaves_no_trace() -> None:
    view = crown.view(STAR, dict.fromkeys("RST", PAIR), memory_budget="1 MiB")
    view.update({name: _edges(i, 100, 10) for i, name in enumerate("RST")})
    before = Counter(rows(view.to_table()))
    with pytest.raises(crown.MemoryBudgetError):
        view.apply({"R": _edges(5, 200_000, 1 << 40)}, factorized=True)
    assert Counter(rows(view.to_table())) == before
    view.check_invariants()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT r.a, s.b FROM R r, R s WHERE r.b = s.a", "have multiplicities"),
        ("SELECT a, COUNT(*) AS n FROM R GROUP BY a", "one join of distinct rows"),
        ("SELECT DISTINCT r.a, s.b FROM R r, R s WHERE r.b = s.a", "projects rows"),
        ("SELECT DISTINCT r.a, r.b, s.b AS c, r.a + s.b AS d FROM R r, R s WHERE r.b = s.a", "computes columns"),
        ("SELECT DISTINCT r.a, r.b, s.b AS c FROM R r, R s WHERE r.b = s.a AND r.a < s.b", "tests a predicate"),
        ("Q() :- R(a, b), R(b, c).", "has no columns"),
    ],
)
def test_rows_that_are_no_products_are_refused_before_anything_is_applied(query: str, why: str) -> None:
    view = crown.view(query, {"R": PAIR})
    with pytest.raises(crown.CrownError, match=why):
        view.apply({"R": [(1, 2), (2, 3)]}, factorized=True)
    with pytest.raises(crown.CrownError, match=why):
        view.results(factorized=True)
    assert view.count() == 0 or query.startswith("SELECT a, COUNT")


def test_subscribers_are_told_plain_rows_only() -> None:
    view = crown.view("Q(a, b, c) :- R(a, b), R(b, c).", {"R": PAIR})
    view.subscribe(print)
    with pytest.raises(crown.CrownError, match="subscribers"):
        view.apply({"R": [(1, 2)]}, factorized=True)
    assert not view.stats()["input_rows"]


def test_lists_of_one_branch_that_differ_are_refused() -> None:
    view = crown.view("Q(k, x, y, z) :- R(k), S(k, x, y), T(k, z).", _TRIPLES)
    delta = view.apply({"R": [(1,)], "S": [(1, 2, 3), (1, 4, 5)], "T": [(1, 6)]}, factorized=True)
    expected: list[Row] = [(1, 2, 3, 6), (1, 4, 5, 6)]
    assert sorted(rows(crown.unfold(delta).drop_columns("_weight"))) == expected
    assert rows(crown.unfold(delta.slice(0, 0))) == []
    torn = pa.array([[2]], delta.schema.field("x").type)
    with pytest.raises(crown.CrownError, match="'x' and 'y' are of one branch"):
        crown.unfold(delta.set_column(1, delta.schema.field("x"), torn))


_TRIPLES = {
    "R": {"k": "int64"},
    "S": {"k": "int64", "x": "int64", "y": "int64"},
    "T": {"k": "int64", "z": "int64"},
}
