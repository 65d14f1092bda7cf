"""Double quotes: text in Spark's SQL, names in the dialect `ansi`; where the two could be confused, a warning."""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import crown
from crown.options import Planning
from plans import PlanError, QueryWarning, parse, plan
from plans.schema import Schema
from spark_jobs.commands import submit
from spark_jobs.operator import planned

SCHEMA = {"g": {"id": "int64", "Name": "string"}, "h": {"id": "int64"}}


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ('SELECT DISTINCT "id" AS i FROM g', "the column id"),
        ('SELECT DISTINCT id FROM g WHERE Name = "NAME"', "the column NAME"),
        ('SELECT DISTINCT g.id FROM g JOIN h ON g.Name = "h"', "the table h"),
        ('SELECT DISTINCT g.id FROM g WHERE EXISTS (SELECT 1 FROM h WHERE h.id = g.id AND g.Name = "id")', "id"),
        ("SELECT DISTINCT id FROM g x WHERE Name IN ('a', \"x\")", "the table x"),
    ],
)
def test_a_text_that_is_called_as_something_is_warned_of(query: str, meant: str) -> None:
    with pytest.warns(QueryWarning) as caught:
        plan(query, SCHEMA)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    word = query[query.index('"') :].split('"')[1]
    assert message.startswith(f"\"{word}\" is the text '{word}' here, not ")
    assert meant in message
    assert f"(line 1, column {query.index(chr(34)) + 1})" in message
    assert f"hint: write `{word}` for the name, '{word}' for the text" in message
    assert "'ansi'" in message
    with pytest.warns(QueryWarning):
        parse(query, SCHEMA)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT DISTINCT id FROM g WHERE Name = "bob"',
        "SELECT DISTINCT id FROM g WHERE Name = 'id'",
        "SELECT DISTINCT `id` FROM g",
        'Q(a) :- g(a, "id").',
    ],
)
def test_any_other_text_is_none_of_our_business(query: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(query, SCHEMA)


def test_in_the_dialect_ansi_double_quotes_write_names() -> None:
    query = """SELECT DISTINCT "id", `Name` AS "the ""name""\" FROM "g" WHERE "g"."Name" = 'it''s "id"'"""
    made = plan(query, SCHEMA, dialect="ansi")
    assert [out.name for out in made.output] == ["id", 'the "name"']
    view = crown.view(query, SCHEMA, dialect="ansi")
    view.apply({"g": [{"id": 1, "Name": 'it\'s "id"'}, {"id": 2, "Name": "id"}]})
    assert view.to_table().to_pylist() == [{"id": 1, 'the "name"': 'it\'s "id"'}]
    same = plan("SELECT DISTINCT id FROM g WHERE Name = 'x'", SCHEMA)
    assert plan("SELECT DISTINCT id FROM g WHERE Name = 'x'", SCHEMA, dialect="ansi").fingerprint == same.fingerprint


def test_another_dialect_is_refused() -> None:
    with pytest.raises(PlanError, match="'cobol' is not known") as caught:
        plan("SELECT DISTINCT id FROM g", SCHEMA, dialect="cobol")
    assert "'spark'" in caught.value.hint
    assert "'ansi'" in caught.value.hint


def _crown(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "crown", *arguments], capture_output=True, text=True, check=False)


def test_the_command_line_warns_in_one_of_its_own_lines_and_knows_the_dialects() -> None:
    query = ("explain", 'SELECT DISTINCT "a" AS x FROM g', "--schema", "g(a int64)")
    spark = _crown(*query)
    assert spark.returncode == 0
    assert "'a' AS x" in spark.stdout
    assert spark.stderr.startswith("crown: warning: \"a\" is the text 'a' here, not the column a (line 1, column 17)")
    assert ".py" not in spark.stderr
    ansi = _crown(*query, "--dialect", "ansi")
    assert ansi.returncode == 0
    assert "output    x" in ansi.stdout
    assert not ansi.stderr
    assert _crown(*query, "--dialect", "cobol").returncode != 0


def test_a_job_for_spark_takes_the_dialect(tmp_path: Path) -> None:
    changes = tmp_path / "changes.csv"
    changes.write_text("a\n1\n")
    parser = argparse.ArgumentParser()
    submit.add_arguments(parser)
    arguments = ['SELECT DISTINCT "a" FROM "g"', "--input", f"g={changes}", "--output", "noop"]
    assert submit.job(parser.parse_args(arguments)).options.planning.dialect == "spark"
    assert submit.job(parser.parse_args([*arguments, "--dialect", "ansi"])).options.planning.dialect == "ansi"
    schema = Schema.of({"g": {"a": "int64"}})
    given = {"g": None}
    made = planned('SELECT DISTINCT "a" AS b FROM "g"', given, schema, Planning(dialect="ansi"))  # type: ignore[arg-type]
    assert [str(out.expr) for out in made.output] == ["b"]
