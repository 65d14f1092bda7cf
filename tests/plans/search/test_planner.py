"""Whole plans of random queries: their form, and their execution against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crown
from plans import Plan, plan
from plans.commands.declare import query_text
from plans.errors import PlanError
from plans.programs.reads import occurrences
from plans.search.cells.shares import Grid, hashable, load, solve
from plans.search.planning import MAX_CHILDREN
from plans.theory.hypergraph import bits
from tests.marks import draws
from tests.oracles import duck
from tests.oracles.database import Database, canonical, to_arrow
from tests.plans.hypergraphs import acyclic_hypergraphs, hypergraphs, normal_form

Query = tuple[tuple[int, ...], int]


def _tables(edges: tuple[int, ...]) -> dict[str, dict[str, str]]:
    return {f"t{w}": {f"c{i}": "int64" for i in range(w)} for w in {edge.bit_count() for edge in edges}}


def _datalog(edges: tuple[int, ...], free: int, residual: tuple[int, int] | None = None) -> str:
    body = [f"t{edge.bit_count()}({', '.join(f'x{v}' for v in bits(edge))})" for edge in edges]
    if residual:
        body.append(f"x{residual[0]} <= x{residual[1]}")
    return f"Q({', '.join(f'x{v}' for v in bits(free))}) :- {', '.join(body)}."


def _sql(edges: tuple[int, ...], free: int, residual: tuple[int, int] | None = None) -> str:
    place: dict[int, str] = {}
    conditions = []
    for i, edge in enumerate(edges):
        for c, v in enumerate(bits(edge)):
            if v in place:
                conditions.append(f"{place[v]} = a{i}.c{c}")
            place.setdefault(v, f"a{i}.c{c}")
    if residual:
        conditions.append(f"{place[residual[0]]} <= {place[residual[1]]}")
    outputs = ", ".join(f"{place[v]} AS x{v}" for v in bits(free)) or "1 AS one"
    sources = ", ".join(f"t{edge.bit_count()} a{i}" for i, edge in enumerate(edges))
    return f"SELECT DISTINCT {outputs} FROM {sources}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


def check_normal_form(made: Plan) -> None:
    """Everything that the engine relies on."""
    names = list(made.attributes)
    masks = [sum(1 << names.index(a) for a in node.attributes) for node in made.nodes]
    parents = [node.parent for node in made.nodes]
    virtual = [node.kind == "virtual" for node in made.nodes]
    free = sum(1 << names.index(a) for a in made.free)
    assert normal_form(masks, virtual, parents, free)
    assert parents[0] == -1
    assert all(0 <= parent < i for i, parent in enumerate(parents) if i)
    assert len({node.name for node in made.nodes}) == len(made.nodes)
    assert made.nodes[0].free
    assert {a for node in made.nodes if node.free for a in node.attributes} == set(made.free)
    for i, node in enumerate(made.nodes):
        above = set(made.nodes[node.parent].attributes) if i else set()
        assert set(node.key) == set(node.attributes) & above
        assert len(set(node.attributes)) == len(node.attributes)
        assert node.free == (set(node.attributes) <= set(made.free) and (not i or made.nodes[node.parent].free))
        assert len(made.children(i)) <= MAX_CHILDREN
        assert len(node.columns) == (len(node.attributes) if node.kind == "input" else 0)
    assert {a for expr in made.residual for a in expr.columns} <= set(made.free)
    assert {a for out in made.output for a in out.expr.columns} <= set(made.free)


@draws(100, 150)
@given(acyclic_hypergraphs(), st.data())
def test_every_acyclic_query_has_a_plan_in_normal_form(query: Query, data: st.DataObject) -> None:
    edges, free = query
    made = plan(_datalog(edges, free), _tables(edges))
    check_normal_form(made)
    for candidate in made.candidates[:6]:
        check_normal_form(plan(_datalog(edges, free), _tables(edges), tree=candidate.tree))


@draws(100, 150)
@given(hypergraphs(max_edges=6))
def test_every_query_has_a_plan_in_normal_form(query: Query) -> None:
    edges, free = query
    made = plan(_datalog(edges, free), _tables(edges))
    check_normal_form(made)
    assert (made.width > 1) == any(node.kind == "bag" for node in made.nodes)


def _maintain(edges: tuple[int, ...], free: int, residual: tuple[int, int] | None, seed: int) -> Plan:
    """Random batches, compared with DuckDB after each; the plan."""
    tables = _tables(edges)
    made = plan(_datalog(edges, free, residual), tables)
    view, database, rng = crown.view(made), Database(tables), random.Random(seed)
    before: set[object] = set()
    for step in range(5):
        batch: dict[str, list[tuple[tuple[object, ...], int]]] = {}
        for name, rows in database.rows.items():
            present = list(rows.elements())
            gone = present if step == 4 else rng.sample(present, min(len(present), rng.randrange(4)))
            new = [tuple(rng.choice([0, 1, 2, None]) for _ in tables[name]) for _ in range(0 if step == 4 else 6)]
            batch[name] = [(row, -1) for row in gone] + [(row, 1) for row in new]
        database.apply(batch)
        delta = view.apply({name: to_arrow(database.schema, name, changes) for name, changes in batch.items()})
        found = set(duck.results(_sql(edges, free, residual), database))
        after = found if free else ({()} if found else set())
        weights = delta["_weight"].to_pylist()
        columns = [column.to_pylist() for column in delta.columns[:-1]]
        rows = canonical(zip(*columns, strict=True)) if columns else [()] * len(weights)
        changes = Counter(dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1))
        assert Counter(dict(zip(rows, weights, strict=True))) == changes
        assert len(rows) == len(changes)
        view.check_invariants()
        before = after
    return made


@settings(max_examples=40)
@given(
    st.one_of(acyclic_hypergraphs(max_edges=5), hypergraphs(max_edges=4, max_vertices=4)), st.integers(0, 9), st.data()
)
def test_every_query_is_maintained(query: Query, seed: int, data: st.DataObject) -> None:
    edges, free = query
    everything = sorted({v for edge in edges for v in bits(edge)})
    pair = st.tuples(st.sampled_from(everything), st.sampled_from(everything))
    _maintain(edges, free, data.draw(st.none() | pair), seed)


def test_projections_of_mixed_nodes_are_maintained_with_their_nulls() -> None:
    edges = (0b1111, 0b1000, 0b110001, 0b100000, 0b11000010, 0b10000000)
    for seed in range(8):
        made = _maintain(edges, 0b1010111, None, seed)
        assert made.nodes[0].name == "t4[x0,x1,x2]"
        assert [a.name for a in made.attributes.values() if a.null_safe] == ["x2"]


@given(acyclic_hypergraphs(), st.sampled_from([2, 4, 6, 8]))
def test_shares_hash_only_outputs_and_are_the_best(query: Query, cells: int) -> None:
    edges, free = query
    made = plan(_datalog(edges, free), _tables(edges))
    if not hashable(made):
        return
    grid = solve(made, cells)
    assert grid.cells == cells
    assert set(grid.attributes) <= {out.expr.value for out in made.output}
    for name in hashable(made):
        assert load(made, grid) <= load(made, type(grid)((name,), (cells,))) + 1e-9
    assert all(1 <= grid.copies(atom.attributes) <= cells for atom in occurrences(made))


def test_every_point_of_a_grid_has_a_cell_of_its_own() -> None:
    grid = Grid(("a", "b", "c"), (2, 3, 4))
    points = product(*map(range, grid.shares))
    cells = [sum(at * grid.stride(axis) for axis, at in enumerate(point)) for point in points]
    assert cells == list(range(grid.cells))


def test_the_three_hop_grid_is_the_published_one() -> None:
    made = plan("Q(a,b,c,d) :- g(a,b), g(b,c), g(c,d).", {"g": {"s": "int64", "t": "int64"}})
    grid = solve(made, 16)
    assert (grid.attributes, grid.shares) == (("b", "c"), (4, 4))
    assert [grid.copies(atom.attributes) for atom in occurrences(made)] == [1, 4, 4]
    star = plan("Q(a,b,c) :- g(a,b), g(a,c).", {"g": {"s": "int64", "t": "int64"}})
    assert solve(star, 8).attributes == ("a",)
    assert [solve(star, 8).copies(atom.attributes) for atom in occurrences(star)] == [1, 1]


def test_a_datalog_condition_may_begin_with_a_negation() -> None:
    schema = {"r": {"a": "int64", "b": "int64"}}
    bare, bracketed = (plan(f"Q(x) :- r(x, y), {text}.", schema) for text in ("NOT (x < y)", "(NOT (x < y))"))
    assert str(bare.nodes[0].predicate) == str(bracketed.nodes[0].predicate) == "NOT (a < b)"


def test_a_query_is_a_text_or_a_file(tmp_path: Path) -> None:
    rule = "Q(a) :- " + ", ".join(f"r(a, b{i})" for i in range(60)) + "."
    assert query_text(rule) == rule  # longer than any file name
    file = tmp_path / "query.sql"
    file.write_text("SELECT 1")
    assert query_text(str(file)) == "SELECT 1"


def test_what_can_only_be_a_file_is_read_or_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes("SELECT 'ä'".encode("latin-1"))
    wrong = {
        "query.sql": "cannot read query.sql: there is no such file, and a single word is not a query",
        str(tmp_path): "is a directory",
        str(tmp_path / "latin.sql"): "it is not UTF-8 text",
    }
    for text, said in wrong.items():
        with pytest.raises(PlanError, match=said) as raised:
            query_text(text)
        assert "give the name of a file" in str(raised.value)
    for text in ("", "SELECT a\nFROM r", "Q(a):-r(a,b).", "(a)-[e]->(b)", '{"nodes":[]}'):
        assert query_text(text) == text
