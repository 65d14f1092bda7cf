"""Mutants of the rules of payloads: each rule is there for a reason, and the oracle sees when it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from plans.payloads.counting import with_multiplicities
from plans.payloads.payload import COUNTED, VALUE, Payload
from plans.plan import Attribute, Node, Plan
from plans.programs.stored_relations import Alias
from plans.schema import Schema
from tests.engine.payloads.test_payloads import difference, hop3
from tests.models import PayloadReference, Result, Row
from tests.models.payload import Value, _sum
from tests.oracles import payloads
from tests.oracles.database import Database, to_dicts

TABLES = {"G": {"src": "int64", "dst": "int64"}}


def fork() -> Plan:
    """Sums by a of paths a -> b -> c, and of other edges of a, on a tree with two bound children and a grandchild."""
    nodes = (
        Node("[a]", "virtual", ("a",), -1, (), True),
        Node("G1", "input", ("a", "b"), 0, ("a",), False, "G", ("src", "dst")),
        Node("G2", "input", ("b", "c"), 1, ("b",), False, "G", ("src", "dst")),
        Node("G3", "input", ("a", "d"), 0, ("a",), False, "G", ("src", "dst")),
    )
    attributes = {name: Attribute(name, "int64") for name in "abcd"}
    plan = Plan("", nodes, attributes, ("a",), (), (), False, False, tuple(Schema.of(TABLES).values()))
    made = with_multiplicities(plan)
    assert made.payload is not None
    c, d = (2, "c", VALUE), (3, "d", VALUE)
    return replace(made, payload=replace(made.payload, terms=((), (c,), (c, d))))


def leaf() -> Plan:
    """COUNT by a of G(a, b), G(a, c), where a leaf G2(a) adds no attribute to its parent."""
    nodes = (
        Node("[a]", "virtual", ("a",), -1, (), True),
        Node("G1", "input", ("a",), 0, ("a",), True, "G", ("src",)),
        Node("G2", "input", ("a",), 0, ("a",), True, "G", ("dst",)),
    )
    return Plan(
        "", nodes, {"a": Attribute("a", "int64")}, ("a",), (), (), False, False, tuple(Schema.of(TABLES).values())
    )


def pairs() -> Plan:
    """The rows of G(a, b), G(b, c) with their multiplicities: both nodes are free, and have one record."""
    nodes = (
        Node("G1", "input", ("a", "b"), -1, (), True, "G", ("src", "dst")),
        Node("G2", "input", ("b", "c"), 0, ("b",), True, "G", ("src", "dst")),
    )
    attributes = {name: Attribute(name, "int64") for name in "abc"}
    tables = tuple(Schema.of(TABLES).values())
    return with_multiplicities(Plan("", nodes, attributes, tuple("abc"), (), (), False, False, tables))


class ZeroedTooEarly(PayloadReference):
    """A last row takes its group's payload along before its parents have left."""

    def s_update(self, e: int, row: Row, sign: int) -> Iterator[Result]:
        group = self.groups[e].get(self.key[e](row))
        if sign < 0 and self.has_value[e] and group is not None and len(group.children) == 1:
            self.pub[e][self.key[e](row)] = dict.fromkeys(self.pub[e][self.key[e](row)], 0)
        yield from super().s_update(e, row, sign)

    def leave(self, e: int, row: Row, last: bool) -> None:
        if not last:
            return super().leave(e, row, last)
        self.pub[e].pop(self.key[e](row))
        self.change[e].pop(self.key[e](row), {})
        return None


class ReadsWhatIsNotTold(PayloadReference):
    """A parent reads what its groups will tell, too."""

    def _own(self, e: int, row: Row, weight: int, instead: tuple[int, Value] | None = None) -> Value:
        told = self.pub
        self.pub = [
            {key: _sum(value, changes.get(key, {})) for key, value in values.items()}
            for values, changes in zip(told, self.change, strict=True)
        ]
        try:
            return super()._own(e, row, weight, instead)
        finally:
            self.pub = told


class OneWeightForAll(PayloadReference):
    """All aliases of a relation have the new weight before the first has told of it."""

    def _change(self, alias: Alias, values: Row, weight: int) -> Iterator[Result]:
        first = min(node for node, relation in enumerate(self.plan.nodes) if relation.relation)
        for node in range(first + 1, len(self.plan.nodes)) if alias.node == first else ():
            before = self.relation[node].get(values, 0)  # all nodes have both columns, in this order
            if before and before + weight:
                self.early[node, values] = weight
        self.early.pop((alias.node, values), None)
        yield from super()._change(alias, values, weight)

    def _weight(self, e: int, row: Row) -> int:
        return super()._weight(e, row) + self.early.get((e, row), 0)

    def __init__(self, plan: Plan) -> None:
        self.early: dict[tuple[int, Row], int] = {}
        super().__init__(plan)


class TellsWithoutPublishing(PayloadReference):
    """A group that has told its parents forgets to write it down."""

    def publish(self) -> Iterator[Result]:
        kept = [dict(values) for values in self.pub]
        yield from super().publish()
        for e, values in enumerate(kept):
            self.pub[e].update({key: value for key, value in values.items() if key in self.pub[e]})


class TellsFromTheTop(PayloadReference):
    """Edges publish from the top down: what comes from below a done edge waits for ever."""

    def publish(self) -> Iterator[Result]:
        deepest = [c for c in range(len(self.plan.nodes)) if self.plan.children(c) == [] and self.has_value[c]]
        waiting = {c: self.change[c] for c in deepest}
        for c in deepest:
            self.change[c] = {}
        yield from super().publish()
        for c, changes in waiting.items():
            self.change[c] = changes


def survives(kind: type[PayloadReference], plan: Plan, seeds: int) -> bool:
    """Whether no run of random batches shows a difference to the definition."""
    for seed in range(seeds):
        random, database, twin = Random(seed), Database(TABLES), kind(plan)
        before: payloads.Valued = {}
        for turn in range(8):
            rows = [((random.randint(1, 3), random.randint(1, 3)), random.choice((1, 1, 2, -1, -2))) for _ in range(4)]
            batch = database.without_absent_deletes({"G": rows} if turn < 7 else database.everything(-1))
            database.apply(batch)
            after = payloads.results(plan, database)
            try:
                delta = twin.apply_valued({"G": to_dicts(database.schema, "G", batch["G"])})
                twin.check_invariants()
            except (AssertionError, KeyError):
                return False
            if {row: tuple(values) for row, values in delta.items()} != difference(after, before):
                return False
            before = after
    return True


@pytest.mark.parametrize("plan", [with_multiplicities(hop3()), fork(), pairs()], ids=["three_hop", "fork", "pairs"])
def test_the_rules_survive(plan: Plan) -> None:
    assert survives(PayloadReference, plan, 15)


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        (ZeroedTooEarly, fork()),
        (ReadsWhatIsNotTold, fork()),
        (OneWeightForAll, pairs()),
        (TellsWithoutPublishing, fork()),
        (TellsFromTheTop, fork()),
    ],
)
def test_a_broken_rule_is_seen(kind: type[PayloadReference], plan: Plan) -> None:
    assert not survives(kind, plan, 15)


def test_a_leaf_that_adds_no_attribute_has_to_be_bound() -> None:
    assert [node.free for node in with_multiplicities(leaf()).nodes] == [True, False, False]


def test_a_projection_that_multiplied_would_be_seen() -> None:
    plan = with_multiplicities(leaf())
    wrong = replace(plan, payload=Payload(("indicator", COUNTED, COUNTED)))
    indicator = replace(plan, payload=Payload(("indicator", COUNTED, "indicator")))
    database = Database(TABLES)
    database.apply({"G": [((1, 1), 3)]})
    assert payloads.results(wrong, database) == {(1,): (9,)}
    assert payloads.results(indicator, database) == {(1,): (3,)}
