"""NOT NULL columns: how they are declared, what a plan gains by them, what they leave as it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import plans
from plans import PlanError
from plans.commands.declare import table_of
from plans.program import Program
from plans.programs.stages import GroupStage
from plans.schema import Column, Schema, Table

OPEN = {"r": {"k": "int64", "x": "int64"}, "t": {"k": "int64"}}
SAFE = {"r": {"k": "int64 NOT NULL", "x": "int64"}, "t": {"k": "int64  not  null"}}


def test_a_column_is_declared_not_null_in_four_ways() -> None:
    wanted = Column("k", "int64", True)
    schema = Schema.of(
        {
            "a": {"k": "int64 not null"},
            "b": pa.schema([pa.field("k", pa.int64(), nullable=False)]),
            "c": {"columns": {"k": "BIGINT NOT NULL"}, "distinct": True},
            "d": Table("d", (wanted,)),
            "e": {"columns": {"k": "int64", "x": "int64"}, "key": ["K"]},
        }
    )
    for name in "abcd":
        assert schema[name].columns == (wanted,)
        assert schema[name].required("K")
    assert schema["e"].required("k")
    assert not schema["e"].required("x")
    assert not schema["e"].columns[0].required
    assert table_of("R(a int64 not null, b string, c int64 key)").columns == (
        Column("a", "int64", True),
        Column("b", "string"),
        Column("c", "int64"),
    )
    with pytest.raises(PlanError, match="type 'int64 not' is not supported"):
        Schema.of({"a": {"k": "int64 not"}})


@pytest.mark.parametrize(
    "query", ["SELECT k, SUM(x) AS s FROM r GROUP BY k", "SELECT DISTINCT x FROM r JOIN t USING (k)"]
)
def test_the_json_of_a_plan_says_it_only_where_it_is_declared(query: str) -> None:
    plain, safe = plans.program(query, OPEN), plans.program(query, SAFE)
    assert (
        plain.to_json()
        == plans.program(
            query, {"r": Table("r", (Column("k", "int64"), Column("x", "int64"))), "t": OPEN["t"]}
        ).to_json()
    )
    tables = plain.to_json()["tables"]
    assert ["k", "int64"] in tables[0]["columns"]
    assert ["k", "int64", True] in safe.to_json()["tables"][0]["columns"]
    assert plain.fingerprint == safe.fingerprint
    for made in (plain, safe):
        assert Program.from_json(made.to_json()) == made


@pytest.mark.parametrize("text", ["k NOT IN (SELECT k FROM t)", "(k IN (SELECT k FROM t)) = FALSE"])
def test_not_in_between_not_null_columns_is_an_anti_join_alone(text: str) -> None:
    query = f"SELECT k, x FROM r WHERE {text}"
    assert any(isinstance(stage, GroupStage) for stage in plans.program(query, OPEN).stages)
    assert not any(isinstance(stage, GroupStage) for stage in plans.program(query, SAFE).stages)
    for halves in ({"r": SAFE["r"], "t": OPEN["t"]}, {"r": OPEN["r"], "t": SAFE["t"]}):
        assert plans.program(query, halves).fingerprint == plans.program(query, OPEN).fingerprint


def count_of(query: str, schema: Any) -> tuple[str, ...]:
    return next(s for s in plans.program(query, schema).stages if isinstance(s, GroupStage)).aggregates[0].arguments


def test_count_of_a_not_null_column_counts_rows() -> None:
    query = "SELECT x, COUNT(k) AS n FROM r GROUP BY x"
    assert count_of(query, OPEN) == ("k",)
    assert count_of(query, SAFE) == ()
    padded = "SELECT x, COUNT(t.k) AS n FROM r LEFT JOIN t ON r.k = t.k GROUP BY x"
    assert count_of(padded, SAFE) == ("k",)
    other = "SELECT t.k, COUNT(r.k) AS n FROM r RIGHT JOIN t ON r.k = t.k GROUP BY t.k"
    assert len(count_of(other, SAFE)) == 1
    grouped = "SELECT n, COUNT(k) AS m FROM (SELECT x AS k, COUNT(*) AS n FROM r GROUP BY x) AS q GROUP BY n"
    assert "COUNT(k)" in str(plans.program(grouped, SAFE))
