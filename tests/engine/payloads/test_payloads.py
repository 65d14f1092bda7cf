"""Payloads of every tree in normal form: counts and sums are those of nested loops, after every batch."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from plans.payloads.counting import with_multiplicities
from plans.payloads.payload import COUNTED, DOWN, EXISTS, INDICATOR, UP, VALID, VALUE, Payload
from plans.plan import Node, Plan
from plans.queries.conjunction import Attribute
from plans.schema import Schema
from tests.engine.payloads.payload_driver import Driver
from tests.marks import draws
from tests.models import PayloadReference
from tests.oracles import payloads
from tests.oracles.database import Batch, Database, to_dicts
from tests.strategies import batches, loads, normal_plans, removals


@st.composite
def payloads_of(draw: st.DrawFn, plan: Plan) -> Payload:
    """A random payload of the plan: kinds of nodes, and up to three sums beside the count."""
    kinds = [INDICATOR] * len(plan.nodes)
    for i in reversed(range(len(plan.nodes))):
        below = [kinds[c] for c in plan.children(i)]
        virtual = plan.nodes[i].kind == "virtual"
        if not plan.nodes[i].free and all(kind == EXISTS for kind in below):
            filters = virtual or draw(st.integers(0, 3)) == 0
            kinds[i] = EXISTS if filters else COUNTED
        if kinds[i] != EXISTS and not virtual:
            kinds[i] = draw(st.sampled_from([COUNTED, COUNTED, COUNTED, INDICATOR]))
    factors = [
        (i, a, what)
        for i, node in enumerate(plan.nodes)
        if not node.free and kinds[i] != EXISTS
        for a in node.attributes
        for what in (VALUE, VALUE, VALID, UP, DOWN)
    ]
    terms = []
    if factors:
        products = st.lists(st.sampled_from(factors), min_size=1, max_size=3)
        terms = draw(st.lists(products.map(lambda term: tuple(sorted(term))), max_size=3, unique=True))
    return Payload(tuple(kinds), ((), *terms))


class Sides:
    """The kernels and the definition, side by side."""

    def __init__(self, plan: Plan, database: Database, rows: int) -> None:
        self.database = database
        self.plan = plan
        self.driver = Driver(plan, rows)
        self.before: payloads.Valued = {}

    def step(self, batch: Batch) -> None:
        """Apply a batch to both and compare."""
        batch = self.database.without_absent_deletes(batch)
        self.database.apply(batch)
        after = payloads.results(self.plan, self.database)
        delta = self.driver.apply(batch)
        assert delta == difference(after, self.before)
        assert self.driver.results() == after
        self.driver.check()
        self.before = after

    def undo(self, batch: Batch) -> None:
        """Take a batch back and apply it again: nothing has changed."""
        batch = self.database.without_absent_deletes(batch)
        there = self.driver.apply(batch)
        back = self.driver.apply({name: [(row, -weight) for row, weight in rows] for name, rows in batch.items()})
        assert back == {row: tuple(-v for v in values) for row, values in there.items()}
        self.driver.check()
        assert self.driver.results() == self.before


def difference(after: payloads.Valued, before: payloads.Valued) -> payloads.Valued:
    found = {}
    for row in {**after, **before}:
        zeros = (0,) * len(after.get(row) or before[row])
        change = tuple(a - b for a, b in zip(after.get(row, zeros), before.get(row, zeros), strict=True))
        if any(change):
            found[row] = change
    return found


def maintain(data: st.DataObject, max_nodes: int) -> None:
    query, plan = data.draw(normal_plans(max_nodes))
    plan = replace(plan, payload=data.draw(payloads_of(plan)))
    sides = Sides(plan, Database(query.tables), data.draw(st.sampled_from([1, 3, 64])))
    sides.step(data.draw(loads(query)))
    for _ in range(data.draw(st.integers(1, 3))):
        sides.undo(data.draw(batches(query, sides.database.rows)))
        sides.step(data.draw(removals(sides.database.rows)))
        sides.step(data.draw(batches(query, sides.database.rows)))
    everything = sides.database.everything(-1)
    sides.step(everything)
    assert sides.driver.is_empty()


@draws(30, 50)
@given(st.data())
def test_counts_and_sums_are_maintained_on_any_tree_in_normal_form(data: st.DataObject) -> None:
    maintain(data, max_nodes=6)


@draws(30, 50)
@given(st.data())
def test_the_readable_twin_agrees_with_the_definition(data: st.DataObject) -> None:
    query, plan = data.draw(normal_plans(6))
    plan = replace(plan, payload=data.draw(payloads_of(plan)))
    database = Database(query.tables)
    twin = PayloadReference(plan)
    before: payloads.Valued = {}
    steps: list[Batch] = [data.draw(loads(query))]
    for number in range(4):
        batch = database.without_absent_deletes(steps[-1])
        database.apply(batch)
        after = payloads.results(plan, database)
        changes = {name: to_dicts(database.schema, name, rows) for name, rows in batch.items()}
        delta = twin.apply_valued(changes)
        assert {row: tuple(values) for row, values in delta.items()} == difference(after, before)
        assert {row: tuple(values) for row, values in twin.values().items()} == {
            row: values for row, values in after.items() if any(values)
        }
        twin.check_invariants()
        before = after
        steps.append(data.draw(batches(query, database.rows)) if number < 2 else database.everything(-1))
    for state in (twin.relation, twin.groups, twin.pub):
        assert not any(state)


SNOW = {
    "R": {"a": "int64", "x": "int64", "u": "bool"},
    "S": {"a": "int64", "y": "decimal(15,2)", "v": "int32"},
    "T": {"a": "int64", "b": "int64"},
    "U": {"b": "int64", "z": "int64"},
}
VALUES = {
    "a": [0, 1],
    "b": [0, 1],
    "x": [-(2**63) + 1, 2**63 - 1, -1, 5, None],
    "u": [0, 1, 1],
    "y": [10**15 - 1, -(10**15) + 1, 7],
    "v": [2**31 - 1, -(2**31), 3],
    "z": [2**63 - 1, -(2**62), 0, 1, None],
}


def snow() -> Plan:
    """Sums by a over a snowflake, with factors of all sizes: parts of one limb, of two, and of three and four."""
    nodes = (
        Node("[a]", "virtual", ("a",), -1, (), True),
        Node("R", "input", ("a", "x", "u"), 0, ("a",), False, "R", ("a", "x", "u")),
        Node("S", "input", ("a", "y", "v"), 0, ("a",), False, "S", ("a", "y", "v")),
        Node("T", "input", ("a", "b"), 0, ("a",), False, "T", ("a", "b")),
        Node("U", "input", ("b", "z"), 3, ("b",), False, "U", ("b", "z")),
    )
    types = {name: kind for columns in SNOW.values() for name, kind in columns.items()}
    attributes = {name: Attribute(name, kind) for name, kind in types.items()}
    x, u, y, v, z = ((i, name, VALUE) for i, name in ((1, "x"), (1, "u"), (2, "y"), (2, "v"), (4, "z")))
    products = [(), (x,), (u,), (x, y), (x, y, z), (u, v), (z,), (v, z), (v, x), (x, x), ((1, "x", VALID),)]
    plan = Plan("", nodes, attributes, ("a",), (), (), False, False, tuple(Schema.of(SNOW).values()))
    terms = tuple(tuple(sorted(product)) for product in products)
    return replace(plan, payload=replace(with_multiplicities(plan).payload or Payload(()), terms=terms))


@st.composite
def snow_changes(draw: st.DrawFn) -> Batch:
    rows = {
        name: st.tuples(st.tuples(*(st.sampled_from(VALUES[column]) for column in columns)), st.integers(-2, 3))
        for name, columns in SNOW.items()
    }
    return draw(st.fixed_dictionaries({name: st.lists(change, max_size=6) for name, change in rows.items()}))


@settings(max_examples=30)
@given(st.lists(snow_changes(), min_size=2, max_size=5))
def test_sums_of_products_do_not_overflow_whatever_their_factors(steps: list[Batch]) -> None:
    sides = Sides(snow(), Database(SNOW), 64)
    assert sorted(sides.driver.layout.result.limbs.values()) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4]
    for batch in steps:
        sides.step(batch)
    sides.step(sides.database.everything(-1))
    assert sides.driver.is_empty()


DOUBLES = {
    "R": {"a": "int64", "x": "float64", "u": "bool"},
    "S": {"a": "int64", "y": "float64", "v": "int32"},
    "T": {"a": "int64", "b": "int64"},
    "U": {"b": "int64", "z": "float64"},
}
FAR = [0.0, 0.5, -3.25, 2.0**79, 2.0**80, -1e300, 1.7976931348623157e308, 5e-324, -1e-30, 2.0**-113, None]


def doubles() -> Plan:
    """Sums of products of up to three doubles, near and far, in all nodes of the snowflake."""
    plan = snow()
    types = {name: kind for columns in DOUBLES.values() for name, kind in columns.items()}
    attributes = {name: Attribute(name, kind) for name, kind in types.items()}
    x, y, v, z = ((i, name, VALUE) for i, name in ((1, "x"), (2, "y"), (2, "v"), (4, "z")))
    products = [(), (x,), (x, x), (x, y), (z,), (v, z), (x, y, z), (v, y)]
    assert plan.payload is not None
    payload = replace(plan.payload, terms=tuple(tuple(sorted(product)) for product in products))
    return replace(plan, attributes=attributes, tables=tuple(Schema.of(DOUBLES).values()), payload=payload)


@st.composite
def doubled_changes(draw: st.DrawFn) -> Batch:
    values = VALUES | dict.fromkeys("xyz", FAR)
    rows = {
        name: st.tuples(st.tuples(*(st.sampled_from(values[column]) for column in columns)), st.integers(-2, 3))
        for name, columns in DOUBLES.items()
    }
    return draw(st.fixed_dictionaries({name: st.lists(change, max_size=5) for name, change in rows.items()}))


@settings(max_examples=30)
@given(st.lists(doubled_changes(), min_size=2, max_size=5))
def test_sums_of_products_of_far_doubles_are_exact(steps: list[Batch]) -> None:
    sides = Sides(doubles(), Database(DOUBLES), 8)
    for batch in steps:
        sides.undo(batch)
        sides.step(batch)
    sides.step(sides.database.everything(-1))
    assert sides.driver.is_empty()


HOP3 = {"G": {"src": "int64", "dst": "int64"}}


def hop3() -> Plan:
    """COUNT(*) of G1.dst = G2.src, G2.dst = G3.src over one relation, on the tree []([b](G1(b), G2(b,c)(G3(c))))."""
    nodes = (
        Node("[]", "virtual", (), -1, (), True),
        Node("[b]", "virtual", ("b",), 0, (), False),
        Node("G1", "input", ("b",), 1, ("b",), False, "G", ("dst",)),
        Node("G2", "input", ("b", "c"), 1, ("b",), False, "G", ("src", "dst")),
        Node("G3", "input", ("c",), 3, ("c",), False, "G", ("src",)),
    )
    attributes = {name: Attribute(name, "int64") for name in "bc"}
    return Plan("", nodes, attributes, (), (), (), False, False, tuple(Schema.of(HOP3).values()))


TRACE: list[tuple[dict[tuple[int, int], int], int, dict[str, dict[int, int]]]] = [
    (
        {(1, 2): 1, (2, 3): 1, (3, 4): 1, (5, 2): 1},
        2,
        {"G1": {2: 2, 3: 1, 4: 1}, "G2": {1: 1, 2: 1, 5: 1}, "G3": {1: 1, 2: 1, 3: 1, 5: 1}, "[b]": {0: 2}},
    ),
    (
        {(3, 6): 1, (7, 2): 1},
        4,
        {
            "G1": {2: 3, 3: 1, 4: 1, 6: 1},
            "G2": {1: 1, 2: 2, 5: 1, 7: 1},
            "G3": {1: 1, 2: 1, 3: 2, 5: 1, 7: 1},
            "[b]": {0: 6},
        },
    ),
    (
        {(3, 4): -1, (5, 3): 1, (8, 5): 1},
        -1,
        {
            "G1": {2: 3, 3: 2, 5: 1, 6: 1},
            "G2": {2: 1, 1: 1, 5: 2, 7: 1, 8: 2},
            "G3": {1: 1, 2: 1, 3: 1, 5: 2, 7: 1, 8: 1},
            "[b]": {0: 5},
        },
    ),
    (
        {(2, 3): -1},
        -4,
        {
            "G1": {2: 3, 3: 1, 5: 1, 6: 1},
            "G2": {5: 1, 8: 2},
            "G3": {1: 1, 3: 1, 5: 2, 7: 1, 8: 1},
            "[b]": {0: 1},
        },
    ),
]


def test_the_count_of_paths_goes_through_known_payloads() -> None:
    plan = with_multiplicities(hop3())
    twin, driver = PayloadReference(plan), Driver(plan)
    names = [node.name for node in plan.nodes]
    for batch, told, payloads_after in TRACE:
        rows = list(batch.items())
        assert twin.apply_valued({"G": to_dicts(Schema.of(HOP3), "G", rows)}) == {(): [told]}
        assert driver.apply({"G": rows}) == {(): (told,)}
        for name, expected in payloads_after.items():
            found = {key[0] if key else 0: value[()] for key, value in twin.pub[names.index(name)].items()}
            assert found == expected, name
        twin.check_invariants()
        driver.check()
    assert driver.results() == {(): (1,)}
