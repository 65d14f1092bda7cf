"""A change that gives a great many deltas is told with its key; a large batch is not taken for one."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import crown
from crown.analysis.amplified import Amplification
from crown.errors import AmplifiedWarning

QUERY = "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b"
SCHEMA = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}}


def hub() -> crown.View:
    view = crown.view(QUERY, SCHEMA)
    view.amplified_beyond = 100
    view.update({"s": {"b": [7] * 400 + list(range(100, 400)), "c": list(range(700))}})
    return view


def test_the_change_of_a_hub_is_told_with_its_key_and_kept_in_stats() -> None:
    view = hub()
    with pytest.warns(
        AmplifiedWarning, match=r"batch 2: 1 changed row with a = 33 gave 400 of 400 deltas; view.explain"
    ):
        view.apply({"r": [{"a": 33, "b": 7}]})
    others = {"a": [*list(range(100, 380)), 55], "b": [*list(range(100, 380)), 7]}
    with pytest.warns(AmplifiedWarning, match=r"1 changed row with a = 55 gave about 400 of 680 deltas"):
        view.apply({"r": others})
    assert [line.split(":")[0] for line in view.stats()["amplified"]] == ["batch 2", "batch 3"]


def test_many_changes_with_some_deltas_each_and_a_threshold_of_none_are_not_told() -> None:
    view = hub()
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmplifiedWarning)
        view.apply({"r": {"a": list(range(300)), "b": list(range(100, 400))}})
        view.amplified_beyond = None
        view.apply({"r": [{"a": 33, "b": 7}]})
    assert view.stats()["amplified"] == []


def test_where_no_value_of_the_deltas_is_in_the_changes_the_batch_is_told() -> None:
    watch = Amplification(10)
    for start in (0, 20):
        watch.add(pa.record_batch({"x": [f"v{i}" for i in range(start, start + 20)], "_weight": [1] * 20}))
    found = watch.found([{"a": pa.array([1, 2]), "_weight": pa.array([1, 1])}])
    assert found is not None
    assert found.line() == "2 changed rows gave 40 of 40 deltas"
    assert Amplification(None).found([]) is None


@pytest.mark.parametrize("share", [2, 5, 20])
def test_of_many_deltas_some_rows_tell(share: int) -> None:
    """However many there are, of a value that is to be told some hundred rows are looked at."""
    watch = Amplification(10_000)
    block = pa.record_batch({"x": [-1 if i % share == 0 else i for i in range(4_000)], "_weight": [1] * 4_000})
    for _ in range(100):
        watch.add(block)
    found = watch.found([{"a": pa.array(range(-1, 999)), "_weight": pa.array([1] * 1_000)}])
    assert found is not None
    assert (found.column, found.value, found.rows, found.of) == ("x", -1, 1, 400_000)
    assert abs(found.deltas * share / 400_000 - 1) < 0.1


@pytest.mark.parametrize("query", [QUERY, "SELECT DISTINCT r.a, s.c FROM r JOIN s ON r.b = s.b"])
@pytest.mark.parametrize("durable", [False, True])
def test_where_the_warning_is_an_error_the_batch_is_refused_and_no_delta_is_lost(
    query: str, durable: bool, tmp_path: Path
) -> None:
    view = crown.open(query, tmp_path / "v", SCHEMA) if durable else crown.view(query, SCHEMA)
    view.amplified_beyond = 100
    view.update({"s": {"b": [7] * 400, "c": list(range(400))}})
    told: list[int] = []
    view.subscribe(lambda deltas: told.append(deltas.num_rows))
    batch = {"r": [{"a": 33, "b": 7}, {"a": 34, "b": 8}]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmplifiedWarning)
        with pytest.raises(AmplifiedWarning, match="batch 2: 1 changed row with a = 33"):
            view.apply(batch)
    assert (view.count(), view.stats()["batches"], view.stats()["amplified"], told) == (0, 1, [], [])
    if isinstance(view, crown.DurableView):
        assert view.batches == 1
    view.check_invariants()
    with pytest.warns(AmplifiedWarning, match="batch 2") as seen:
        assert view.apply(batch).num_rows == 400
    assert (view.count(), told) == (400, [400])
    assert seen[0].filename == __file__, "the warning is where the batch was given"
    if isinstance(view, crown.DurableView):
        view.close()
        with crown.open(query, tmp_path / "v", SCHEMA) as again:
            assert (again.batches, again.count()) == (2, 400)
