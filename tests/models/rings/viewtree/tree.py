"""Maintenance of a view tree: an update climbs from its relation to the root (F-IVM, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tests.models.rings.algebra.ring import Ring
from tests.models.rings.viewtree.indicators import Indicator
from tests.models.rings.viewtree.relation import Factors, Lifts, Relation
from tests.models.rings.viewtree.views import View, materialized

Keep = Callable[[tuple[str, ...], Any], Any]


class ViewTree:
    """The views of one query over a ring, kept up to date.

    `root`: a tree as `view_tree` makes it. `lifts`: lifting functions by variable. `database`: the relations before the
    first update, by name (none: empty). `updatable`: the relations that will change (none given: all of them); what
    their updates never join with is not stored, see `stored`. `keep(summed, payload)`: what a view keeps of a payload
    after it has marginalized its variables, a linear function such as `keep_only`. Raises ValueError if the ring is not
    commutative and the tree would change the order of the relations.

    Every relation is read in place of its name; a relation that a join uses twice is two leaves with two names, and an
    update of it is applied to one after the other.
    """

    def __init__(
        self,
        ring: Ring,
        root: View,
        *,
        lifts: Lifts | None = None,
        database: Mapping[str, Relation] | None = None,
        updatable: Collection[str] | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.ring = ring
        self.root = root
        self.lifts = dict(lifts or {})
        self._keep = keep
        self._parents = {child.name: parent for parent in root.nodes() for child in parent.children}
        self._nodes = {node.name: node for node in root.nodes()}
        self._leaves = [node for node in root.nodes() if not node.children]
        self.relations = [leaf.name for leaf in self._leaves if leaf.indicates is None]
        self.updatable = frozenset(self.relations if updatable is None else updatable)
        unknown = self.updatable.difference(self.relations)
        if unknown:
            raise ValueError(f"{min(unknown)} is none of the relations of the tree: {', '.join(self.relations)}")
        if not ring.commutative and self.lifts:
            raise ValueError("lifts commute with nothing else in a ring that is not commutative; leave them out")
        stored = materialized(root, self.updatable)
        self.views: dict[str, Relation] = {}
        """The stored nodes, by name: views, relations and indicator projections."""
        self._indicators: dict[str, list[tuple[View, Indicator]]] = {}
        for leaf in self._leaves:
            if leaf.indicates is not None:
                source = self._nodes[leaf.indicates]
                made = Indicator(ring, source.keys, leaf.keys)
                self._indicators.setdefault(leaf.indicates, []).append((leaf, made))
        self._load({} if database is None else database, stored)

    @property
    def result(self) -> Relation:
        """Returns the query's result: the relation at the root."""
        return self.views[self.root.name]

    @property
    def stored(self) -> set[str]:
        """Returns the names of the nodes that are stored for the updatable relations (F-IVM, Figure 5)."""
        return set(self.views)

    def size(self) -> int:
        """Returns the number of tuples in all stored nodes together."""
        return sum(map(len, self.views.values()))

    def apply(self, name: str, delta: Relation | Factors) -> dict[str, Factors]:
        """Applies an update of one relation, and returns the deltas of the nodes from it to the root, by name.

        A `Factors` stays factorized on its way: variables are marginalized inside the factors that have them, and what
        is stored on the path is added multiplied out. After the relation's own path come those of its indicator
        projections; the deltas of a node that is on several paths are returned as one relation. Raises ValueError for a
        relation that was not declared updatable, or for columns that are not its own. Cost: the sizes of the deltas and
        of what they join with.
        """
        leaf = self._nodes.get(name)
        if leaf is None or name not in self.updatable:
            raise ValueError(
                f"{name} is not updatable here; updatable: {', '.join(sorted(self.updatable)) or 'nothing'}"
            )
        factors = delta if isinstance(delta, Factors) else Factors(delta)
        if len(factors.parts) > 1 and not self.ring.commutative:
            raise ValueError("factorized updates need a commutative ring; multiply this one out")
        if sorted(factors.schema) != sorted(leaf.keys):
            raise ValueError(f"{name} has the columns {', '.join(leaf.keys)}, not {', '.join(factors.schema)}")
        deltas: dict[str, Factors] = {}
        self._climb(leaf, factors, deltas)
        for projection, indicator in self._indicators.get(name, ()):
            change = indicator.change(factors.expanded())
            if len(change):
                self._climb(projection, Factors(change), deltas)
        return deltas

    def _climb(self, leaf: View, delta: Factors, deltas: dict[str, Factors]) -> None:
        node: View | None = leaf
        while node is not None:
            seen = deltas.get(node.name)
            deltas[node.name] = Factors(seen.expanded().union(delta.expanded())) if seen else delta
            if node.name in self.views:
                self.views[node.name].update(delta.expanded())
            parent = self._parents.get(node.name)
            if parent is not None:
                delta = self._step(parent, node, delta)
            node = parent

    def _step(self, view: View, changed: View, delta: Factors) -> Factors:
        """Returns the delta of a view, from that of one of its children and what is stored of the others."""
        at = view.children.index(changed)
        before = [self.views[child.name] for child in view.children[:at]]
        after = [self.views[child.name] for child in view.children[at + 1 :]]
        if len(delta.parts) == 1:
            joined = delta.parts[0]
            for sibling in reversed(before):  # outwards from the delta, so that payloads keep their order
                joined = sibling.join(joined)
            for sibling in after:
                joined = joined.join(sibling)
            return Factors(self._finished(view, joined.marginalize(view.summed, self.lifts)))
        parts = [*delta.parts, *before, *after]
        for variable in view.summed:
            parts = self._eliminated(variable, parts)
        return Factors(*parts) if self._keep is None else Factors(self._finished(view, Factors(*parts).expanded()))

    def _eliminated(self, variable: str, parts: Sequence[Relation]) -> list[Relation]:
        """Returns ⊕_X of a join, pushed into the factors that have X: the rest is left as it is (OPTIMIZE in Figure
        4)."""
        involved = [part for part in parts if variable in part.schema]
        rest = [part for part in parts if variable not in part.schema]
        joined = involved[0]
        for part in involved[1:]:
            joined = joined.join(part)
        return [*rest, joined.marginalize((variable,), self.lifts)]

    def _finished(self, view: View, relation: Relation) -> Relation:
        keep = self._keep
        return relation if keep is None else relation.mapped(lambda payload: keep(view.summed, payload))

    def _load(self, database: Mapping[str, Relation], stored: set[str]) -> None:
        """Evaluates all views bottom-up, and keeps those that are stored. Cost: that of the factorized join."""
        unknown = set(database).difference(self.relations)
        if unknown:
            raise ValueError(f"{min(unknown)} is none of the relations of the tree: {', '.join(self.relations)}")
        if not self.ring.commutative:
            order = [leaf.name for leaf in self.root.nodes() if not leaf.children]
            if list(database) != order:
                raise ValueError(
                    f"the product of payloads depends on the order {', '.join(database) or 'of the relations'}, which "
                    f"this tree does not keep: its leaves are {', '.join(order)}"
                )
        current: dict[str, Relation] = {}
        for node in self.root.nodes():
            if node.children:
                made = current[node.children[0].name]
                for child in node.children[1:]:
                    made = made.join(current[child.name])
                made = self._finished(node, made.marginalize(node.summed, self.lifts))
            else:
                made = self._leaf(node, database)
            current[node.name] = made
        self.views = {
            name: Relation(self.ring, made.schema, made.payloads) for name, made in current.items() if name in stored
        }

    def _leaf(self, leaf: View, database: Mapping[str, Relation]) -> Relation:
        """Returns the relation of a leaf as the database has it, in the leaf's columns; or its indicator projection."""
        source = self._nodes[leaf.indicates] if leaf.indicates is not None else leaf
        made = Relation(self.ring, source.keys)
        if source.name in database:
            made.update(database[source.name])
        if leaf.indicates is None:
            return made
        return next(indicator for node, indicator in self._indicators[source.name] if node is leaf).change(made)
