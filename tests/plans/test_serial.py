"""JSON and fingerprints of plans and programs come from their fields, and stay what they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plans import Output, PlanError, Program, Table, plan, program
from plans.expressions.build import call, col, lit
from plans.programs.stages import Aggregate, Feed, GroupStage, JoinStage, LinearStage, PointwiseStage
from plans.schema import Column
from tests.marks import every
from tests.plans.catalogue import CASES

SCHEMA = {"R": {"a": "int64", "b": "string"}}
A, B = col("a", "int64"), col("b", "string")
TABLES = (Table("R", (Column("a", "int64"), Column("b", "string"))),)


def many_stages() -> Program:
    """Returns a program with a stage of every kind, functions and expressions nested."""
    feed = Feed("R", (Output("a", "int64", A), Output("b", "string", B)), call("gt", A, lit(3)), -1)
    aggregates = (Aggregate("n", "int64", "count"), Aggregate("s", "int64", "sum", ("a",), True, "p"))
    group = GroupStage(feed, ("a",), aggregates, (Output("n", "int64", col("n", "int64")),), None, True)
    stages = (
        JoinStage(plan("SELECT DISTINCT a FROM R", SCHEMA), "bag"),
        group,
        PointwiseStage((feed, Feed(1, ())), ("distinct", ("except_all", 0, ("union", 1, 0)))),
        LinearStage((feed,)),
    )
    return Program("q", TABLES, stages, ("a note",), ("a warning",))


def test_a_program_survives_json() -> None:
    made = many_stages()
    again = Program.from_json(json.dumps(made.to_json()))
    assert again == made
    assert again.fingerprint == made.fingerprint
    assert Program.from_json(made.to_json()) == made


def test_the_form_of_a_program_is_that_of_its_fields() -> None:
    data = many_stages().to_json()
    assert list(data) == ["program", "query", "tables", "stages", "notes", "warnings"]
    assert [stage["kind"] for stage in data["stages"]] == ["join", "group", "pointwise", "linear"]
    assert list(data["stages"][1]) == ["kind", "feed", "keys", "aggregates", "outputs", "having", "whole"]
    assert data["stages"][1]["feed"]["columns"][0] == ["a", "int64", {"op": "col", "type": "int64", "value": "a"}]
    assert data["stages"][2]["function"] == ["distinct", ["except_all", 0, ["union", 1, 0]]]


def test_a_fingerprint_ignores_text_and_notes_and_nothing_else() -> None:
    made = many_stages()
    assert Program("other", made.tables, made.stages).fingerprint == made.fingerprint
    assert Program("q", made.tables, made.stages[:3]).fingerprint != made.fingerprint
    other = (JoinStage(plan("SELECT DISTINCT b FROM R", SCHEMA), "bag"), *made.stages[1:])
    assert Program("q", made.tables, other).fingerprint != made.fingerprint


@every(CASES)
def test_a_program_of_one_plan_is_that_plan(case: Any) -> None:
    made = case.plan()
    whole = program(made)
    assert whole.plan is made
    assert whole.to_json() == made.to_json()
    assert whole.fingerprint == made.fingerprint
    assert Program.from_json(json.dumps(made.to_json())).plan == made


def test_the_fingerprint_of_a_plan_is_that_of_earlier_releases() -> None:
    made = plan(
        "Q(a, b, c) :- R(a, b), S(b, c).", {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
    )
    assert made.fingerprint == "15a023d8c347e7157dcdef967c9d50381b6508fa70debc60c87803e35336d052"
    assert list(made.to_json())[:4] == ["version", "query", "nodes", "attributes"]


def test_a_damaged_program_is_called_so() -> None:
    data = many_stages().to_json()
    for name in list(data)[1:]:
        with pytest.raises(PlanError, match="damaged"):
            Program.from_json({key: value for key, value in data.items() if key != name})
    with pytest.raises(PlanError, match="'sort' is not a kind of stage"):
        Program.from_json({**data, "stages": [{"kind": "sort"}]})
    with pytest.raises(PlanError, match="not a program"):
        Program.from_json({"stages": []})
    with pytest.raises(PlanError, match="format version 7"):
        Program.from_json({**data, "program": 7})
