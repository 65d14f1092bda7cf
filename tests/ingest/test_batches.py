"""A batch is a Z-set: one batch = the same changes one by one = any split of them, in any order within a batch."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

import plans
from tests.engine.comparison import planned
from tests.engine.views import IMPLEMENTATIONS, Kernel
from tests.marks import draws
from tests.oracles import brute_force
from tests.oracles.database import Database
from tests.strategies import batches, loads, queries

Change = tuple[str, tuple[object, ...], int]


def _grouped(changes: list[Change]) -> dict[str, list[tuple[tuple[object, ...], int]]]:
    batch: dict[str, list[tuple[tuple[object, ...], int]]] = {}
    for relation, row, weight in changes:
        batch.setdefault(relation, []).append((row, weight))
    return batch


@draws(15, 25)
@given(st.data())
def test_any_split_of_a_stream_has_the_same_sum_of_deltas(data: st.DataObject) -> None:
    query = data.draw(queries(any_output=data.draw(st.booleans())))
    plan = planned(query.sql if query.only_sql else query.datalog, query)
    assume(plan is not None)
    database = Database(query.tables)
    stream: list[Change] = []
    for draw in (lambda: loads(query, 6), lambda: batches(query, database.rows), lambda: batches(query, database.rows)):
        for relation, changes in data.draw(draw()).items():
            for change in changes:
                batch = database.without_absent_deletes({relation: [change]})
                database.apply(batch)
                stream += [(relation, row, weight) for row, weight in batch[relation]]
    result = Counter(dict.fromkeys(brute_force.results(plan, database), 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    for make in (make for make in IMPLEMENTATIONS if make.takes(plan)):
        for ends in ([], range(1, len(stream)), cuts):
            view = make(plan)
            total: Counter[tuple[object, ...]] = Counter()
            for start, end in zip([0, *ends], [*ends, len(stream)], strict=True):
                total.update(
                    view.apply(
                        _grouped(data.draw(st.permutations(stream[start:end])) if ends is cuts else stream[start:end])
                    )
                )
            assert Counter({row: weight for row, weight in total.items() if weight}) == result
            view.check()


def test_changes_that_cancel_out_in_a_batch_are_no_change() -> None:
    tables = {"R": {"a": "int64"}, "S": {"a": "int64"}}
    view = Kernel(plans.plan("Q(a) :- R(a), S(a).", tables))
    view.apply({"S": [((1,), 1)]})
    assert view.apply({"R": [((1,), 1), ((1,), -1)]}) == Counter()
    assert view.apply({"R": [((1,), -1), ((1,), 2)]}) == Counter({(1,): 1})
    assert view.apply({"R": [((1,), -1), ((1,), 1)], "S": [((1,), 5), ((1,), -5)]}) == Counter()
    assert view.apply({"R": [((1,), -1)]}) == Counter({(1,): -1})


def test_a_tuple_replaced_by_another_leaves_the_projection_alone() -> None:
    tables = {"R": {"a": "int64", "x": "int64"}, "S": {"x": "int64"}}
    view = Kernel(plans.plan("Q(a) :- R(a, x), S(x).", tables))
    view.apply({"R": [((1, 1), 1)], "S": [((1,), 1), ((2,), 1)]})
    for _ in range(3):  # with consolidation, and without: there -1 and +1 may both come
        assert view.apply({"R": [((1, 1), -1), ((1, 2), 1)]}) == Counter()
        assert view.apply({"R": [((1, 1), 1), ((1, 2), -1)]}) == Counter()
    assert view.results() == [(1,)]


def test_rows_that_differ_in_unused_columns_are_copies_of_one() -> None:
    tables = {"R": {"a": "int64", "unused": "string"}}
    view = Kernel(plans.plan("SELECT DISTINCT a FROM R", tables))
    assert view.apply({"R": [((1, "x"), 1), ((1, "y"), 1)]}) == Counter({(1,): 1})
    assert view.apply({"R": [((1, "x"), -1)]}) == Counter()
    assert view.apply({"R": [((1, "y"), -1)]}) == Counter({(1,): -1})
