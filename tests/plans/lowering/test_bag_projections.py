"""Cyclic queries in which output hangs on some attributes of a bag, and a condition on the others."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from plans import plan
from tests.marks import draws, every
from tests.plans.search.test_planner import _datalog, _maintain, _tables, check_normal_form

E = {"a": "int64", "b": "int64"}
F = {"a": "int64", "b": "int64", "c": "int64"}


def _masks(rule: str) -> tuple[tuple[int, ...], int]:
    """`ac: ab bc ca` as edges and output, an attribute a letter."""
    head, _, body = rule.partition(":")
    return tuple(_mask(word) for word in body.split()), _mask(head)


def _mask(word: str) -> int:
    return sum(1 << "abcdefghij".index(letter) for letter in word)


RULES = (
    "ef: ab bc cde daf b",  # the output hangs on c, d and d, a; a condition on b
    "acfg: ab bc cd da be af cg",
    "acfg: ab bc ca be af cg",  # an atom of the triangle has both a and c
    "acfg: ab bc cd da b af cg",
    "acdfg: ab bc cd da b af cdg",
    "acfgh: ab bc cd da be ef af cg ah",
    "acfg: abe bec ca be b af cg",  # a corner of two attributes
    "fgh: ab bc ca af cg fh hf b",
)


@every(RULES)
def test_such_a_query_is_maintained(rule: str) -> None:
    edges, free = _masks(rule)
    for seed in range(3):
        check_normal_form(_maintain(edges, free, None, seed))


def test_the_query_that_had_no_tree_has_one() -> None:
    made = plan("Q(p,q) :- E(a,b), E(b,c), F(c,d,p), F(d,a,q), U(b).", {"E": E, "F": F, "U": {"a": "int64"}})
    assert sorted(node.name for node in made.nodes if node.bag is not None) == ["bag[a,b,c,d]", "bag[a,c,d]"]
    atoms = [atom.name for node in made.nodes if node.bag is not None for atom in node.bag.atoms]
    assert len(set(atoms)) == len(atoms)
    assert set(atoms) <= set(made.rates)


def test_an_atom_of_the_bag_with_the_attributes_stands_for_the_bag() -> None:
    made = plan("Q(a,c,x,w) :- E(a,b), E(b,c), E(c,a), E(b,z), E(a,x), E(c,w).", {"E": E})
    assert [node.name for node in made.nodes if node.bag is not None] == ["bag[a,b,c]"]
    assert "E_3[c,a]" in {node.name for node in made.nodes}


@st.composite
def cycles_with_more(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    """A cycle whose atoms may be wider, and up to five small atoms, unary ones among them."""
    n = draw(st.integers(3, 5))
    vertices = st.integers(0, 7)
    edges = [1 << i | 1 << (i + 1) % n | draw(st.sampled_from([0, 0, 1 << draw(vertices)])) for i in range(n)]
    edges += [
        sum(1 << v for v in more) for more in draw(st.lists(st.sets(vertices, min_size=1, max_size=3), max_size=5))
    ]
    used = [v for v in range(8) if any(edge >> v & 1 for edge in edges)]
    free = sum(1 << v for v in draw(st.sets(st.sampled_from(used), max_size=4)))
    return tuple(draw(st.permutations(edges))), free


@draws(120, 200)
@given(cycles_with_more())
def test_every_cycle_with_more_has_a_plan_in_normal_form(query: tuple[tuple[int, ...], int]) -> None:
    edges, free = query
    check_normal_form(plan(_datalog(edges, free), _tables(edges)))


@settings(max_examples=20)
@given(cycles_with_more(), st.integers(0, 9))
def test_every_cycle_with_more_is_maintained(query: tuple[tuple[int, ...], int], seed: int) -> None:
    edges, free = query
    _maintain(edges, free, None, seed)
