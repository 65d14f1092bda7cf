"""Cutting a query into cells: every combination of joining rows meets in exactly one cell. Oracle: counting."""

from __future__ import annotations

from itertools import product

import pytest

import plans
from spark_jobs.errors import SparkJobError
from spark_jobs.layout import cell_plan, layout_of
from spark_jobs.shares import Grid, atoms_of, default_cells, hashable, replication, solve

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
QUERIES = {
    "3-hop": "Q(a,b,c,d) :- g(a,b), g(b,c), g(c,d).",
    "star": "Q(a,b,c,d) :- g(a,b), g(a,c), g(a,d).",
    "projected": "Q(a,c) :- g(a,b), g(b,c).",
    "triangle": "Q(a,b,c) :- g(a,b), g(b,c), g(c,a).",
}


def targets(grid, atom, values):
    """The cells a row goes to, from the definition: agree along the axes it has, all along the others."""
    axes = []
    for attribute, share in zip(grid.attributes, grid.shares, strict=True):
        position = atom.attributes.index(attribute) if attribute in atom.attributes else None
        axes.append(range(share) if position is None else [hash(("salt", values[position])) % share])
    cells = set()
    for point in product(*axes):
        cell = 0
        for axis, coordinate in enumerate(point):
            cell += coordinate * grid.stride(axis)
        cells.add(cell)
    return cells


@pytest.mark.parametrize("cells", [1, 2, 4, 6, 8])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_joining_rows_meet_in_exactly_one_cell(query, cells):
    plan = plans.plan(query, GRAPH)
    grid = solve(plan, cells)
    assert grid.cells == cells
    atoms = atoms_of(plan)
    names = sorted({a for atom in atoms for a in atom.attributes})
    for binding in product(range(3), repeat=len(names)):
        value = dict(zip(names, binding, strict=True))
        meeting = set.intersection(*(targets(grid, a, [value[x] for x in a.attributes]) for a in atoms))
        assert len(meeting) == 1


def test_only_what_the_query_outputs_is_hashed():
    assert set(hashable(plans.plan(QUERIES["projected"], GRAPH))) == {"a", "c"}
    assert default_cells(plans.plan(QUERIES["projected"], GRAPH), 8) == 4


def test_a_query_without_hashable_output_runs_in_one_cell_or_says_why_not():
    plan = plans.plan("Q() :- g(a,b), g(b,c).", GRAPH)
    assert default_cells(plan, 8) == 1
    assert solve(plan, 1) == Grid((), ())
    with pytest.raises(SparkJobError, match="cells=1"):
        solve(plan, 2)
    with pytest.raises(SparkJobError, match="1 or more"):
        solve(plan, 0)


def test_a_star_is_cut_at_its_centre_with_one_copy_of_each_row():
    plan = plans.plan(QUERIES["star"], GRAPH)
    grid = solve(plan, 4)
    assert grid == Grid(("a",), (4,))
    assert replication(plan, grid) == 1


def test_three_hops_are_cut_along_both_inner_attributes():
    plan = plans.plan(QUERIES["3-hop"], GRAPH)
    grid = solve(plan, 4)
    assert dict(zip(grid.attributes, grid.shares, strict=True)) == {"b": 2, "c": 2}
    assert Grid.of(grid.to_json()) == grid
    assert "4 cells" in str(grid)
    assert str(Grid((), ())) == "1 cell"


def test_slots_are_shared_by_relations_and_types_keep_apart():
    schema = {"p": {"x": "int64", "n": "string"}, "q": {"n": "string", "y": "int64", "z": "int64"}}
    plan = plans.plan("Q(x,n,y) :- p(x,n), q(n,y,z), z > 3.", schema)
    layout = layout_of(plan, marked=True, quarantine=False)
    assert sorted(layout.slots) == ["int64", "int64", "string"]
    assert len(set(layout.placed[0].values())) == 2
    own = cell_plan(plan, layout)
    assert {table.name for table in own.tables} == {atom.name for atom in atoms_of(plan)}
    assert [node.relation for node in own.nodes if node.kind == "input"] == [
        node.name for node in own.nodes if node.kind == "input"
    ]


def test_columns_that_no_atom_reads_do_not_travel():
    schema = {"p": {"x": "int64", "unused": "string", "y": "int64"}}
    plan = plans.plan("SELECT DISTINCT x FROM p WHERE y > 1", schema)
    layout = layout_of(plan, marked=False, quarantine=False)
    assert set(layout.placed[0]) == {"x", "y"}
    assert [column.name for column in cell_plan(plan, layout).tables[0].columns] == ["x", "y"]
