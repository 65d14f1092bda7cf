"""The numbers of views and databases in Prometheus' text format."""

from __future__ import annotations

import re

import crown
from crown.analysis.prometheus import Metric, rendered

LINE = re.compile(r'(# (HELP|TYPE) \w+ .+|\w+\{\w+="([^"\\\n]|\\.)*"(,\w+="([^"\\\n]|\\.)*")*\} -?\d+(\.\d+)?)')


def test_a_view_shows_its_numbers() -> None:
    schema = {
        "r": {"a": int, "at": int},
        "u": {"columns": {"k": int, "x": int, "at": int}, "key": ["k"], "upserts": True, "sequence": "at"},
    }
    view = crown.view(
        "SELECT r.a, u.x FROM r JOIN u ON r.a = u.k",
        schema,
        windows={"r": crown.ttl("at", 10, late="drop")},
        on_missing="ignore",
    )
    view.insert("r", [(1, 100), (2, 100)])
    view.insert("r", [(1, 120), (2, 5)])
    view.upsert("u", [(1, 1, 5)])
    view.upsert("u", [(1, 2, 4)])
    view.delete("u", [(7, 1, 5)])
    lines = view.metrics('my "view"').splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    numbers = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    label = 'view="my \\"view\\""'
    assert numbers[f"crown_batches_total{{{label}}}"] == "5"
    assert numbers[f'crown_expired_rows_total{{{label},table="r"}}'] == "2"
    assert numbers[f'crown_late_rows_total{{{label},table="r"}}'] == "1"
    assert numbers[f'crown_late_changes_total{{{label},table="u"}}'] == "1"
    assert numbers[f'crown_absent_deletes_total{{{label},table="u"}}'] == "1"
    assert int(numbers[f"crown_state_bytes{{{label}}}"]) == view.stats()["live_bytes"]


def test_a_database_shows_its_numbers() -> None:
    db = crown.database({"r": {"a": int}})
    db.insert("r", [(1,), (2,)])
    assert 'crown_state_rows{view="crown",table="r"} 2' in db.metrics().splitlines()


def test_labels_are_escaped() -> None:
    lines = list(rendered(Metric("m", "gauge", "Something"), [({"a": 'x"\\\n'}, 1.5)]))
    assert lines == ["# HELP m Something.", "# TYPE m gauge", 'm{a="x\\"\\\\\\n"} 1.5']
