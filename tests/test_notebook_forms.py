"""What a notebook shows: a view as a card with its plan on click, deltas coloured by sign, other tables as before."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest

import crown
from crown.results import html_table, progress_bar

SCHEMA = {"r": {"a": "int64", "x": "string"}}


def text(html: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL).split())


def test_a_view_shows_query_rows_memory_last_batch_sample_and_plan() -> None:
    view = crown.view("SELECT a, COUNT(*) AS n FROM r WHERE x < 'y' GROUP BY a", SCHEMA)
    assert "0 rows" in text(view._repr_html_())
    view.update({"r": [(n, "x") for n in range(8)]})
    html = view._repr_html_()
    shown = text(html)
    assert shown.startswith("SELECT a, COUNT(*) AS n FROM r WHERE x &lt; &#x27;y&#x27; GROUP BY a 8 rows · ")
    assert re.search(r"· [\d.]+ KiB · 1 batch, the last took [\d.]+ m?s a n (?:\d 1 ){5}and 3 more plan", shown)
    assert html.count("<details>") >= 1
    assert html.count("<div") == html.count("</div>")
    assert "rgba" not in html.split("<details>")[0], "a sample has no sign"


def test_copies_of_a_row_count_in_a_card() -> None:
    view = crown.view("SELECT x FROM r", SCHEMA)
    view.update({"r": [(1, "a"), (2, "a"), (3, "b")]})
    shown = text(view._repr_html_())
    assert "3 rows" in shown
    assert not re.search(r"and \d+ more", shown)


def test_a_view_of_a_database_shows_itself() -> None:
    db = crown.database(SCHEMA)
    db.view("xs", "SELECT DISTINCT x FROM r")
    db.update({"r": [(1, None)]})
    assert "1 row · view xs x NULL" in text(db["xs"]._repr_html_())


def test_a_delta_is_coloured_by_sign() -> None:
    view = crown.view("SELECT a, COUNT(*) AS n FROM r GROUP BY a", SCHEMA)
    view.update({"r": [(1, "x")]})
    html = html_table.delta(view.apply({"r": [(1, "y")]}))
    assert html is not None
    rows = re.findall(r"<tr style='background:(rgba\([^)]*\))'>(.*?)</tr>", html)
    assert [text(row) for _, row in rows] == ["1 1 -1", "1 2 1"]
    assert rows[0][0] != rows[1][0]
    assert text(html).startswith("1 inserted, 1 deleted a n _weight")
    assert html_table.delta(view.apply({"r": []})) == "<div>no changes</div>"


def test_long_deltas_and_long_values_are_cut_and_say_so() -> None:
    view = crown.view("SELECT x FROM r", SCHEMA)
    html = html_table.delta(view.apply({"r": [(n, f"{n:03}" * 100) for n in range(html_table.SHOWN + 5)]}))
    assert html is not None
    assert html.count("<tr ") == html_table.SHOWN
    assert "and 5 more" in html
    assert len(html) < 10_000


def test_other_tables_look_as_before() -> None:
    assert html_table.delta(pa.table({"a": [1]})) is None


def test_a_running_notebook_is_told_how_deltas_look(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}
    formatter = SimpleNamespace(for_type=lambda type_, form: told.update({type_: form}))
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    crown.view("SELECT x FROM r", SCHEMA)
    assert told == {pa.Table: html_table.delta}
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    crown.view("SELECT x FROM r", SCHEMA)


def test_a_batch_that_takes_long_has_a_bar_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "PATIENCE", 2.0)
    told: list[str] = []

    def display(html: str) -> progress_bar.Show:
        told.append(html)
        return told.append

    life, view = progress_bar.Pulse(display), crown.view("SELECT a FROM r", SCHEMA)
    life.watch(view._meter)
    begun: list[float] = []

    def rows() -> Iterator[tuple[int, str]]:
        assert view._meter.begun is not None
        begun.append(view._meter.begun)
        for seconds in (1.0, 3.0, 4.0):
            life.look(begun[0] + seconds)
        yield 1, "x"

    view.apply({"r": rows()})
    assert [re.sub("<.*?>", "", html) for html in told] == [
        " crown: applying a batch, 3 s", " crown: applying a batch, 4 s",
    ]  # fmt: skip
    life.look(begun[0] + 9.0)
    life.look(begun[0] + 10.0)
    assert told[2:] == [""], "it goes, once"
    with pytest.raises(crown.BadRowError):
        view.apply({"r": [("no number", "x")]})
    life.look(begun[0] + 100.0)
    assert told[3:] == [], "a batch that was refused does not run"
