"""Two files of results side by side."""

from __future__ import annotations

import json

import pytest

from bench import commands
from bench.harness.compare import agreed, compare, verdict
from bench.harness.results import FORMAT, ResultsError
from tests.bench.test_run import arguments


def section(**rates: list[float]) -> dict:
    cells = [
        {"workload": "3-hop", "title": "3-Hop", "engine": engine, "mode": "delta", "updates_per_s_all": found}
        for engine, found in rates.items()
    ]
    return {"format": FORMAT, "section": "engines", "scale": "normal", "machine": {}, "cells": cells}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([100, 110, 120], [121, 130], "faster"),
        ([100, 110, 120], [119, 300], "same"),
        ([100, 110], [90, 99], "slower"),
        ([100, 110], [100, 110], "same"),
        ([100], [200, 210], "unknown"),
        ([], [200, 210], "unknown"),
    ],
)
def test_a_verdict_needs_ranges_that_do_not_meet(before, after, said) -> None:
    assert verdict(before, after) == said


def test_rows_are_matched_and_those_of_one_file_are_counted() -> None:
    rows, alone = compare([(section(crown=[1.0, 2.0], flink=[5.0]), section(crown=[3.0, 4.0], pathway=[5.0]))])
    assert [(row.title, row.verdict) for row in rows] == [("3-Hop, crown, delta", "faster")]
    assert alone == 2


def test_different_scales_or_sections_are_not_compared() -> None:
    for what, other in (("scale", "quick"), ("section", "targets")):
        with pytest.raises(ResultsError, match=f"only results of the same {what}"):
            compare([(section(crown=[1.0, 2.0]), section(crown=[1.0, 2.0]) | {what: other})])


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([([100, 110], [121, 130]), ([10, 11], [12, 13])], "faster"),  # the machine was slower in the second round
        ([([100, 110], [121, 130]), ([12, 13], [10, 11])], "same"),
        ([([100, 110], [121, 130]), ([10, 12], [11, 13])], "same"),
        ([([100], [121]), ([110], [130])], "faster"),  # one repeat each: no round has a spread of its own
        ([([100], [121])], "unknown"),
    ],
)
def test_a_verdict_of_runs_by_turns_is_what_every_round_has(rounds, said) -> None:
    assert agreed(rounds) == said


def test_rows_that_one_file_of_a_round_lacks_are_not_compared() -> None:
    first = (section(crown=[1.0, 2.0], python=[1.0, 2.0]), section(crown=[3.0, 4.0], python=[3.0, 4.0]))
    second = (section(crown=[1.0, 2.0]), section(crown=[5.0, 6.0]))
    (row,), alone = compare([first, second])
    assert (row.before, row.after, row.verdict, alone) == ([1, 2, 1, 2], [3, 4, 5, 6], "faster", 1)


def test_the_command_prints_a_verdict_per_row_and_fails_where_something_is_slower(tmp_path, capsys) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(section(crown=[1e6, 2e6, 3e6], python=[10.0, 11.0])))
    after.write_text(json.dumps(section(crown=[4e6, 5e6, 6e6], python=[10.0, 11.0])))
    assert commands.run(arguments("compare", str(before), str(after))) == 0
    assert "faster    x 2.50  3-Hop, crown, delta: 2 M (1 M to 3 M) -> 5 M (4 M to 6 M)" in capsys.readouterr().out
    assert commands.run(arguments("compare", str(after), str(before))) == 1
    assert "slower" in capsys.readouterr().out
    assert commands.run(arguments("compare", str(before), str(after), str(after), str(before))) == 0
    assert capsys.readouterr().out.count("same") == 2
    with pytest.raises(ResultsError, match="has no file to be compared with"):
        commands.run(arguments("compare", str(before), str(after), str(after)))


def test_files_that_cannot_be_read_are_one_sentence(tmp_path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"format": 1}))
    with pytest.raises(ResultsError, match="has format 1"):
        commands.run(arguments("compare", str(old), str(old)))
    with pytest.raises(ResultsError, match="there is no such file"):
        commands.run(arguments("compare", str(tmp_path / "absent.json"), str(old)))
