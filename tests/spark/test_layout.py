"""What travels from the sources to the cells: columns in shared slots, and only those that the query reads."""

from __future__ import annotations

import plans
from plans.shares import occurrences
from spark_jobs.layout import cell_plan, layout_of


def test_slots_are_shared_by_relations_and_types_keep_apart():
    schema = {"p": {"x": "int64", "n": "string"}, "q": {"n": "string", "y": "int64", "z": "int64"}}
    plan = plans.plan("Q(x,n,y) :- p(x,n), q(n,y,z), z > 3.", schema)
    layout = layout_of(plan, marked=True, quarantine=False)
    assert sorted(layout.slots) == ["int64", "int64", "string"]
    assert len(set(layout.placed[0].values())) == 2
    own = cell_plan(plan, layout)
    assert {table.name for table in own.tables} == {atom.name for atom in occurrences(plan)}
    assert [node.relation for node in own.nodes if node.kind == "input"] == [
        node.name for node in own.nodes if node.kind == "input"
    ]


def test_columns_that_no_atom_reads_do_not_travel():
    schema = {"p": {"x": "int64", "unused": "string", "y": "int64"}}
    plan = plans.plan("SELECT DISTINCT x FROM p WHERE y > 1", schema)
    layout = layout_of(plan, marked=False, quarantine=False)
    assert set(layout.placed[0]) == {"x", "y"}
    assert [column.name for column in cell_plan(plan, layout).tables[0].columns] == ["x", "y"]
