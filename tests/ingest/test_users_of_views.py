"""What users of views meet beside results: subscribers, threads, warnings, options, budgets."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.errors import ConcurrentChangeError, CrownError, MemoryBudgetError

SCHEMA = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}}
TEXTS = {"t": {"a": "int64", "b": "string", "c": "string"}}
COUNTS = "SELECT a, COUNT(*) AS n FROM r GROUP BY a"


# Subscribers
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["apply", "update"])
def test_a_subscriber_that_changes_its_view_is_refused(change: str) -> None:
    view = crown.view(COUNTS, SCHEMA)
    told: list[int] = []

    def subscriber(deltas: pa.Table) -> None:
        told.append(deltas.num_rows)
        assert view.count() == 1, "it may read"
        getattr(view, change)({"r": [(7, 7)]})

    end = view.subscribe(subscriber)
    view.subscribe(lambda deltas: told.append(-deltas.num_rows))
    with pytest.raises(
        ConcurrentChangeError, match="a subscriber cannot change the view whose changes it receives"
    ) as caught:
        view.apply({"r": [(1, 1)]})
    assert "the batch was applied" in caught.value.__notes__[0]
    assert told == [1, -1]
    assert list(view) == [{"a": 1, "n": 1}]
    end()
    assert view.apply({"r": [(2, 2)]}).num_rows == 1


def test_a_subscriber_may_change_another_view() -> None:
    one, other = crown.view(COUNTS, SCHEMA), crown.view("SELECT n FROM q", {"q": {"a": "int64", "n": "int64"}})
    one.subscribe(lambda deltas: other.update({"q": deltas}))
    one.update({"r": [(1, 1)]})
    one.update({"r": [(1, 2)]})
    assert list(other) == [{"n": 2}]


# Threads
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [COUNTS, "Q(a, c) :- r(a, b), s(b, c)."])
def test_what_is_said_of_a_view_that_is_busy_is_for_threads_too(query: str) -> None:
    view = crown.view(query, SCHEMA)
    deltas = view.apply_batches({"r": [(n, 1) for n in range(9)], "s": [(1, 2)]})
    next(deltas)
    said: list[str] = []

    def other() -> None:
        try:
            view.count()
        except ConcurrentChangeError as error:
            said.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    deltas.close()
    assert re.fullmatch(
        r"a batch is still being applied: .*; if another thread applies it, let one thread .* a lock", *said
    )


# Warnings
# ----------------------------------------------------------------------------------------------------------------------


def of_a_view(folder: Path) -> Any:
    return crown.view('SELECT a FROM t WHERE "b" = c', TEXTS)


def of_a_plan(folder: Path) -> Any:
    return crown.plan('SELECT a FROM t WHERE "b" = c', TEXTS)


def of_an_explanation(folder: Path) -> Any:
    return crown.explain('SELECT a FROM t WHERE "b" = c', TEXTS)


def of_a_folder(folder: Path) -> Any:
    return crown.open('SELECT a FROM t WHERE "b" = c', folder / "view", TEXTS)


def of_a_database(folder: Path) -> Any:
    return crown.database(TEXTS).view("v", 'SELECT a FROM t WHERE "b" = c')


def of_a_regression(folder: Path) -> Any:
    columns = {"a": "int64", "b": "int64", "y": "int64"}
    model = crown.ml.regression("SELECT a, b, y FROM t", {"t": columns}, target="y")
    model.apply({"t": [(1, 2, 3), (2, 4, 5)]})
    return model.coefficients()


def of_an_amplified_change(folder: Path) -> Any:
    view = crown.view("Q(a, b, c) :- r(a, b), s(b, c).", SCHEMA)
    view.amplified_beyond = 5
    view.update({"r": [(n, 1) for n in range(9)]})
    return view.apply({"s": [(1, 1)]})


WARNED = [of_a_view, of_a_plan, of_an_explanation, of_a_folder, of_a_database, of_a_regression, of_an_amplified_change]


@pytest.mark.parametrize("make", WARNED)
def test_a_warning_points_at_the_line_of_the_user(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(tmp_path)
    lines, first = inspect.getsourcelines(make)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert caught[0].lineno == first + len(lines) - 1, "where the function was called"


# Options
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("on_mising", "did you mean on_missing?"),
        ("memory_buget", "did you mean memory_budget?"),
        ("rate", "did you mean rates?"),
        ("window", "did you mean windows?"),
        ("zzz", "it has dialect, .*on_missing, .*rates"),
    ],
)
def test_an_option_that_is_mistyped_is_named(option: str, hint: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {option: 1}
    edges = {"src": "int64", "dst": "int64"}
    wrong: list[Callable[[], Any]] = [
        lambda: crown.view(COUNTS, SCHEMA, **given),
        lambda: crown.open(COUNTS, tmp_path / "v", SCHEMA, **given),
        lambda: crown.open(None, tmp_path / "v", **given),
        lambda: crown.ml.regression("SELECT a, b FROM r", SCHEMA, target="b", **given),
        lambda: crown.graph.motif(None, edges, "(a)-[]->(b)", **given),
        lambda: crown.graph.open(None, edges, "(a)-[]->(b)", tmp_path / "w", **given),
        lambda: crown.graph.degrees(edges, **given),
        lambda: crown.graph.triangles(None, edges, **given),
    ]
    for call in wrong:
        with pytest.raises(CrownError, match=rf"^crown\.\w+ has no option '{option}'; {hint}"):
            call()
    assert not (tmp_path / "v").exists()


# Budgets
# ----------------------------------------------------------------------------------------------------------------------

BRANCHES = " UNION ALL ".join(
    f"SELECT x.a + {i} AS a, COUNT(*) AS n, MAX(y.c) AS m FROM r x, s y WHERE x.b = y.b GROUP BY x.a + {i}"
    for i in range(9)
)


@pytest.mark.parametrize(
    ("query", "threads"), [(COUNTS, 1), (BRANCHES, 1), ("Q(a, c) :- r(a, b), s(b, c).", 8), ("Q(a) :- r(a, b).", 1)]
)
def test_a_budget_that_is_too_small_is_told_one_that_is_not(query: str, threads: int) -> None:
    with pytest.raises(MemoryBudgetError, match="memory_budget=5000 is too small for this query to start") as caught:
        crown.view(query, SCHEMA, memory_budget=5000, threads=threads)
    least = re.search(r"at least (\d+) KiB", str(caught.value))
    assert least is not None
    enough = int(least[1])
    assert crown.view(query, SCHEMA, memory_budget=f"{enough} KiB", threads=threads).count() == 0
    with pytest.raises(MemoryBudgetError, match=f"at least {enough} KiB"):
        crown.view(query, SCHEMA, memory_budget=f"{enough - 1} KiB", threads=threads)
