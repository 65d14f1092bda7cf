"""Windows on the command line: they mean what they mean in Python, and mistakes are said in a sentence."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import crown
from crown.commands.main import main
from plans.commands.declare import add_windows, windows_of
from plans.errors import PlanError
from spark_jobs.commands import submit
from spark_jobs.errors import SparkJobError
from spark_jobs.job.submit import _check


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_windows(parser)
    return windows_of(parser.parse_args(words))


@pytest.mark.parametrize(
    ("words", "window"),
    [
        (["--ttl", "r=at:3600"], crown.ttl("at", 3600)),
        (["--ttl", " r = at : 1 hour : 5 minutes"], crown.ttl("at", "1 hour", lateness="5 minutes")),
        (["--tumbling", "r=at:10 minutes", "--late", "R=raise"], crown.tumbling("at", "10 minutes", late="raise")),
        (["--sliding", "r=at:15:5:2"], crown.sliding("at", 15, 5, lateness=2)),
        (["--last-rows", "r=10"], crown.last_rows(10)),
        (["--last-rows", "r=10:n"], crown.last_rows(10, by="n")),
    ],
)
def test_an_option_is_the_window_that_python_makes(words, window):
    assert parsed(*words) == {"r": window}


def test_every_relation_has_one_of_its_own():
    found = parsed("--ttl", "r=at:9", "--last-rows", "s=4", "--ttl", "t=ts:1 day")
    assert found == {"r": crown.ttl("at", 9), "t": crown.ttl("ts", "1 day"), "s": crown.last_rows(4)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ttl", "r"], "--ttl 'r' names no relation and window; write 'clicks=at:1 hour'"),
        (["--ttl", "=at:1"], "names no relation"),
        (["--ttl", "r=at"], "--ttl 'r=at' is not a window; write 'clicks=at:1 hour'"),
        (["--ttl", "r=at:1:2:3"], "is not a window"),
        (["--ttl", "r=at:an hour"], "'an hour' of the window over at is not a length of time"),
        (["--sliding", "r=at:10"], "--sliding 'r=at:10' is not a window"),
        (["--sliding", "r=at:5:10"], "leave out the rows between them"),
        (["--last-rows", "r=many"], "--last-rows 'r=many' is not a number of rows; write clicks=10000"),
        (["--last-rows", "r=5:"], "is not a number of rows"),
        (["--last-rows", "r=" + "9" * 5000], "is not a number of rows"),
        (["--ttl", "r=at:" + "9" * 5000], "of the window over at is not a length of time"),
        (["--tumbling", "r=at:" + "9" * 5000 + " days"], "of the window over at is not a length of time"),
        (["--ttl", "r=at:1", "--last-rows", "R=5"], "R already has a window; give one per relation"),
        (["--late", "r=drop"], "r has no window of event time; give one, or leave --late out"),
        (["--last-rows", "r=5", "--late", "r=drop"], "r has no window of event time"),
        (["--ttl", "r=at:1", "--late", "r=keep"], "'keep' is not supported; use drop or"),
    ],
)
def test_mistakes_are_said_in_a_sentence(words, said):
    with pytest.raises(PlanError) as error:
        parsed(*words)
    assert said in str(error.value).replace("\nhint: ", "; ")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "r.csv"
    file.write_text("a,at\n1,0\n2,50\n3,70\n4,10\n5,200\n")
    return file


def test_rows_leave_as_time_goes_by(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "SELECT a FROM r", "--schema", "r(a int64, at int64)", "--input", f"r={events}"]
    assert main([*words, "--batch-rows", "1", "--output", "-", "--ttl", "r=at:60"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["+ a=1", "+ a=2", "- a=1", "+ a=3", "- a=2", "- a=3", "+ a=5"]
    assert "3 rows expired, 1 came too late" in err


def test_a_late_row_stops_the_command_if_it_shall(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "SELECT a FROM r", "--schema", "r(a int64, at int64)", "--input", f"r={events}"]
    assert main([*words, "--batch-rows", "1", "--ttl", "r=at:60", "--late", "r=raise"]) == 2
    assert "10 is late: the watermark is 70" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("r=when:60", "the window of r is by when, which is not one of its columns"),
        ("r=at:1 hour", "the window of r is by at, which is int64: give whole numbers"),
        ("q=at:60", "windows= names the relation 'q', which the query does not read"),
    ],
)
def test_a_window_that_does_not_fit_the_relation_is_refused(events, capsys, given, said):
    words = ["run", "SELECT a FROM r", "--schema", "r(a int64, at int64)", "--input", f"r={events}"]
    assert main([*words, "--ttl", given]) == 2
    assert said in capsys.readouterr().err


def test_a_job_on_spark_has_the_same_windows(tmp_path):
    parser = argparse.ArgumentParser()
    submit.add_arguments(parser)
    words = [
        "SELECT a FROM r",
        "--input",
        f"r={tmp_path}:format=csv",
        "--output",
        str(tmp_path),
        "--checkpoint",
        str(tmp_path),
    ]
    job = submit.job(parser.parse_args([*words, "--ttl", "r=at:1 hour", "--last-rows", "s=5:n", "--verify"]))
    assert job.options.planning.windows == {"r": crown.ttl("at", "1 hour"), "s": crown.last_rows(5, by="n")}
    with pytest.raises(SparkJobError, match="r has a window, which drops rows: leave --verify out"):
        _check(job)
