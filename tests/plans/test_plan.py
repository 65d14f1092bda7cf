"""The artefact: its form, its identity, and what it refuses to read."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pytest

import plans
from plans import Column, Plan, PlanError, Schema, Table, arrow_type, plan, type_of_arrow
from plans.commands import explain as explain_command
from plans.commands.declare import rates_of, schema_of, table_of
from plans.errors import FileError
from plans.search.rates import sample_rates
from tests.marks import every

G = {"g": Table("g", (Column("src", "int64"), Column("dst", "int64")), distinct=True)}
THREE_HOP = (
    "SELECT g1.src AS a, g1.dst AS b, g2.dst AS c, g3.dst AS d FROM g g1, g g2, g g3 "
    "WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst > 5"
)


def test_the_three_hop_plan_is_the_published_one() -> None:
    made = plan(THREE_HOP, G)
    root, left, right = made.nodes
    assert (root.name, root.attributes, root.parent, root.key) == ("g2", ("b", "c"), -1, ())
    assert (left.name, left.attributes, left.parent, left.key) == ("g1", ("a", "b"), 0, ("b",))
    assert (right.name, right.attributes, right.parent, right.key) == ("g3", ("c", "d"), 0, ("c",))
    assert str(right.predicate) == "dst > 5"
    assert made.free == ("a", "b", "c", "d")
    assert made.consolidated
    assert not made.support
    assert [out.name for out in made.output] == ["a", "b", "c", "d"]


def test_a_column_of_the_predicate_only_stays_out_of_the_node() -> None:
    made = plan("SELECT DISTINCT x.src FROM g x WHERE x.dst > 3", G)
    assert made.nodes[0].attributes == ("src",)
    assert made.nodes[0].predicate is not None


def test_predicates_reach_every_alias_that_shares_the_variable() -> None:
    made = plan("SELECT DISTINCT x.src FROM g x, g y WHERE x.dst = y.src AND y.src > 3", G)
    assert {node.name: str(node.predicate) for node in made.nodes if node.kind == "input"} == {
        "x": "dst > 3",
        "y": "src > 3",
    }


def test_a_constant_takes_its_variable_out_of_the_query() -> None:
    made = plan("Q(a, b, c) :- g(a, b), g(b, c), g(c, a), a = 5.", G)
    assert made.query_class["acyclic"]
    assert str(made.output[0].expr) == "5"
    assert made.output[0].type == "int64"


def test_a_constant_that_no_value_equals_is_an_ordinary_predicate() -> None:
    made = plan("SELECT DISTINCT c FROM r WHERE c = 5000000000", {"r": {"c": "int32"}})
    assert str(made.nodes[0].predicate) == "CAST(c AS BIGINT) = 5000000000"


def test_the_fingerprint_is_of_what_determines_results_and_state() -> None:
    made = plan(THREE_HOP, G)
    assert plan(THREE_HOP + " ", G).fingerprint == made.fingerprint
    assert plan(THREE_HOP, G, rates={"g": 7}).fingerprint == made.fingerprint
    assert plan(THREE_HOP.replace("> 5", "> 6"), G).fingerprint != made.fingerprint
    assert plan(THREE_HOP, G, tree="[b](g1, g2(g3))").fingerprint != made.fingerprint


def test_a_plan_is_planned_as_it_is() -> None:
    made = plan(THREE_HOP, G)
    assert plan(made) is made
    assert plan(made.to_json()) == made
    assert plan(json.dumps(made.to_json())) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "not a plan"),
        ('{"version": 99}', "format version 99"),
        ('{"version": 1}', "damaged"),
        ('{"version": 1, "query": "", "nodes": 3}', "damaged"),
    ],
)
def test_a_foreign_or_damaged_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(text)


def test_rates_choose_between_trees_and_unknown_ones_are_refused() -> None:
    assert plan(THREE_HOP, G, rates={"g1": 100}).candidates[0].tree == "[b](g1, g2(g3))"
    with pytest.raises(PlanError, match="which the query does not use"):
        plan(THREE_HOP, G, rates={"h": 1})
    with pytest.raises(PlanError, match="0 or more"):
        plan(THREE_HOP, G, rates={"g": -1})


def test_a_sample_gives_the_rate_of_each_alias() -> None:
    made = plan(THREE_HOP, G)
    sample = pa.table({"SRC": [1, 2, 3, 4], "dst": [1, 9, 9, None]})
    assert sample_rates(made, {"G": sample}) == {"g2": 4.0, "g1": 4.0, "g3": 2.0}
    with pytest.raises(PlanError, match="does not use a relation called h"):
        sample_rates(made, {"h": sample})
    with pytest.raises(PlanError, match="has no column dst"):
        sample_rates(made, {"g": sample.drop_columns("dst")})


def test_the_explain_command_takes_a_sample_and_a_number_of_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tmp_path / "g.csv"
    sample.write_text("src,dst\n1,2\n3,9\n")
    parser = argparse.ArgumentParser()
    explain_command.add_arguments(parser)
    words = [THREE_HOP, "--schema", "g(src int64, dst int64) distinct", "--sample", f"g={sample}", "--cells", "4"]
    assert explain_command.run(parser.parse_args(words)) == 0
    out = capsys.readouterr().out
    assert "Σ depth·rate 3," in out
    assert "4 cells: 2 of b × 2 of c" in out
    with pytest.raises(FileError, match=r"cannot read .*none\.csv: there is no such file"):
        explain_command.run(parser.parse_args([*words[:4], f"g={tmp_path}/none.csv"]))


@every([
        (pa.int8(), "int32"), (pa.uint16(), "int32"), (pa.uint32(), "int64"), (pa.float32(), "float64"),
        (pa.large_string(), "string"), (pa.dictionary(pa.int32(), pa.string()), "string"), (pa.date32(), "date"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"), (pa.timestamp("s"), "timestamp_ntz"),
        (pa.decimal128(10, 2), "decimal(10,2)"), (pa.binary(4), "binary"), (pa.bool_(), "bool"),
        (pa.uint64(), "decimal(20,0)"), (pa.binary_view(), "binary"), (pa.string_view(), "string"),
        (pa.decimal32(5, 2), "decimal(5,2)"), (pa.decimal64(18, 0), "decimal(18,0)"),
        (pa.decimal256(38, 10), "decimal(38,10)"), (pa.decimal256(76, 10), "decimal(38,10)"),
        (pa.decimal256(76, 50), "decimal(38,38)"), (pa.decimal128(5, -2), "decimal(7,0)"),
        (pa.decimal128(38, -2), "decimal(38,0)"), (pa.decimal128(3, 5), "decimal(5,5)"),
        (pa.dictionary(pa.int8(), pa.string_view()), "string"), (pa.run_end_encoded(pa.int32(), pa.date32()), "date"),
        (pa.json_(), "string"), (pa.uuid(), "binary"), (pa.bool8(), "bool"),
    ])  # fmt: skip
def test_arrow_types_have_a_planner_type(arrow: pa.DataType, name: str) -> None:
    assert type_of_arrow(arrow) == name
    assert type_of_arrow(arrow_type(name)) == name


QUERIES = ["SELECT x FROM t", "SELECT * FROM t", "SELECT y FROM t WHERE x > 1", "Q(x) :- t(x, y).", "Q(y) :- t(1, y)."]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    ("arrow", "why"),
    [
        (pa.list_(pa.time32("s")), "Arrow type time32.* is not supported; cast the column"),
        (pa.time32("s"), "Arrow type time32.* is not supported"),
        (pa.time64("us"), "Arrow type time64.* is not supported"),
        (
            pa.null(),
            "the column has no value from which to infer its type; declare the columns of its table in the schema",
        ),
    ],
)
def test_columns_without_a_type_are_there_and_cannot_be_read(arrow: pa.DataType, why: str, query: str) -> None:
    schema = {"t": pa.schema([("x", arrow), ("y", pa.int64())])}
    with pytest.raises(PlanError, match=rf"column (t\.)?x(, which)? has no type(.|\n)*{why}"):
        plans.program(query, schema)
    for other in ("SELECT y FROM t", "SELECT y, COUNT(*) AS n FROM t GROUP BY y", "Q(y) :- t(_, y)."):
        made = plans.program(other, schema)
        assert [column.name for column in made.tables[0].columns] == ["x", "y"]
        assert plans.Program.from_json(made.to_json()) == made


def test_schemas_are_found_in_any_case_and_checked() -> None:
    schema = Schema.of({"G": {"Src": "BIGINT", "dst": "long"}, "H": pa.schema([("x", pa.int64())])})
    assert schema["g"].column("SRC") == Column("Src", "int64")
    assert list(schema) == ["G", "H"]
    for wrong, message in (
        ({"G": {"a": "int64"}, "g": {"a": "int64"}}, "two tables"),
        ({"G": {"a": "int64", "A": "int64"}}, "two columns"),
        ({"G": {"a": "quaternion"}}, r"column G\.a: type 'quaternion'"),
        ({"G": {"columns": {"a": "int64"}, "key": ["b"]}}, "the key of table G names b"),
        ({"G": {"columns": {"a": "int64"}, "unique": True}}, "unknown declaration"),
        ({"G": 7}, "not 7"),
        ([1], "not a list"),
    ):
        with pytest.raises(PlanError, match=message):
            Schema.of(wrong)  # type: ignore[arg-type]


def test_tables_are_declared_on_the_command_line() -> None:
    table = table_of("R(a int64 key, b decimal(10, 2), c string key) distinct")
    assert table.key == ("a", "c")
    assert table.distinct
    assert table.columns[1] == Column("b", "decimal(10,2)")
    assert rates_of(["g=3", "h = 0.5"]) == {"g": 3.0, "h": 0.5}
    for text in ("R", "R(a)", "R(a int64 b)"):
        with pytest.raises(PlanError, match="does not declare"):
            schema_of([text])
    with pytest.raises(PlanError, match="is not a rate"):
        rates_of(["g"])
    with pytest.raises(PlanError, match="cannot read the schema"):
        schema_of(["none.json"])


def test_the_package_offers_what_it_says() -> None:
    assert all(hasattr(plans, name) for name in plans.__all__)
    assert isinstance(plans.plan(THREE_HOP, G), Plan)
