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
from plans import PlanError, QueryWarning, parse, plan, program
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


@pytest.mark.parametrize("dialect", ["postgres", "redshift", "materialize", "risingwave"])
def test_columns_without_an_alias_have_the_names_that_postgresql_gives(dialect: str) -> None:
    query = (
        "SELECT t.name, t.count, id, row_number FROM (SELECT Name::text, COUNT(*), CAST(id AS text), MAX(id) + 1, "
        "ROW_NUMBER() OVER (ORDER BY id), CASE WHEN id > 1 THEN 1 END, COALESCE(id, 0) FROM g GROUP BY id, Name) t "
        "ORDER BY count DESC, id LIMIT 3"
    )
    view = crown.view(query, SCHEMA, dialect=dialect)
    view.update({"g": [(1, "a"), (1, "a"), (2, "b")]})
    assert [tuple(row.values()) for row in view] == [("a", 2, "1", 1), ("b", 1, "2", 2)]
    inner = query[query.index("(") + 1 : query.rindex(") t")]
    names = [column.name for column in program(inner, SCHEMA, dialect=dialect).output]
    assert names == ["Name", "count", "id", "c3", "row_number", "case", "coalesce"]
    twice = program("SELECT COUNT(*), COUNT(id), MAX(id) FROM g", SCHEMA, dialect=dialect)
    assert [column.name for column in twice.output] == ["c0", "c1", "max"]


@pytest.mark.parametrize("dialect", ["bigquery", "clickhouse", "duckdb", "snowflake"])
def test_a_comma_may_end_a_select_list_where_the_dialect_allows_it(dialect: str) -> None:
    query = "WITH a AS (SELECT id, Name, FROM g) SELECT id, COUNT(*) AS n, FROM a GROUP BY id"
    assert [column.name for column in program(query, SCHEMA, dialect=dialect).output] == ["id", "n"]
    for wrong in ("SELECT id,, FROM g", "SELECT id FROM g WHERE id IN (1,)", "SELECT , FROM g"):
        with pytest.raises(PlanError, match="this comma"):
            program(wrong, SCHEMA, dialect=dialect)
    with pytest.raises(PlanError, match="nothing after this comma"):
        program(query, SCHEMA, dialect="postgres")


def test_a_qualified_name_of_a_table_that_the_schema_has_without_it_is_told() -> None:
    with pytest.raises(PlanError, match=r"unknown table main\.g") as caught:
        program("SELECT id FROM main.g", SCHEMA)
    assert caught.value.hint == "write g, or give the table of the schema the name main.g"
    assert program("SELECT g.id FROM main.g", {"main.g": SCHEMA["g"]}).output
