"""The readable twin of the engine: the same algorithm over dicts, one page per idea, for reading and for comparing.

"Change Propagation Without Joins" (PVLDB 16(5), 2023), sections 4 and 5, over any plan in normal form. Per node e:

    R_e      the relation: tuples with a multiplicity each (input node), or the union of the children's V_p (virtual)
    count    per tuple of R_e, the number of children c with t[key(c)] in V_p(c)
    V_s(e)   the tuples with count = |C_e|: those that join with every subtree below
    V_p(e)   V_s(e) projected on key(e), with derivation counts
    V_l(e)   the tuples of a free node that take part in a result

V_s, V_p and V_l are not stored one by one: an edge e → p(e) has one ``_Group`` per key value, and all three are read
from it. An update is propagated **depth first, one tuple at a time**: a tuple is finished (counted, propagated or
enumerated, made live or dead, unlinked) before the next one. So every enumeration reads the exact state of some
database, each result of the delta is found once, and Definition 5.6 (witnesses) becomes one test: a tuple is a witness
iff its key did *not* enter or leave V_p, and a live parent has that key.

The twin shares no code with the kernels. It is slow (microseconds per step, plain Python values) and exact.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa

from crown.errors import CrownError
from plans.expressions.build import Expr
from plans.plan import Plan
from plans.programs.stored_relations import Alias, StoredRelation, stored_relations
from plans.types import arrow_type
from tests.models import padded

Row = tuple[object, ...]
Result = dict[str, object]
"""One enumerated result: attribute → value, for every attribute of the plan's free nodes."""

_NAN = float("nan")


def normalise(value: object) -> object:
    """Returns the representative of ``value`` in SQL's sense of identity: one NaN, one zero, tuples for parts.

    NaN is one value, equal to itself, and -0.0 equals 0.0, as in Spark and DuckDB. Python's ``==`` on tuples agrees
    with this after normalisation, because tuples compare their items by ``is`` first.
    """
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(map(normalise, value.values()))
    return tuple(map(normalise, value)) if isinstance(value, (list, tuple)) else value


def _projection(source: tuple[str, ...], target: tuple[str, ...]) -> Callable[[Row], Row]:
    """Returns the function that maps a tuple over attributes ``source`` to the one over ``target``."""
    where = [source.index(name) for name in target]
    if len(where) > 1:
        return itemgetter(*where)
    return lambda row: tuple(row[i] for i in where)


@dataclass
class _Group:
    """The state of one key value ``k`` of an edge c → p. Dicts serve as ordered sets."""

    children: dict[Row, None] = field(default_factory=dict)
    """Tuples of V_s(c) with key k. Not empty ⇔ k ∈ V_p(c); its length is the derivation count of k."""
    parents: dict[Row, None] = field(default_factory=dict)
    """Tuples of R_p with key k, dangling ones too."""
    live: dict[Row, None] = field(default_factory=dict)
    """Those parents that are in V_l(p). Not empty ⇔ the children are in V_l(c)."""


class ReferenceView:
    """A maintained query: ``apply`` changes, read the deltas; enumerate, count or probe the results.

    ``plan`` is a plan in normal form of input and virtual nodes (no cyclic bags). Values are Python values; NULL is
    None. The query sees sets: a base tuple has a multiplicity, but only 0 → 1 and 1 → 0 propagate. Raises CrownError
    for a plan with other nodes.

    Counters, all since construction: ``r_updates`` (effective changes of a node's relation), ``s_updates`` (tuples
    that entered or left a V_s), ``p_updates`` (child counters changed: the cost that Theorem 6.5 bounds), ``steps``
    (tuples bound while enumerating), ``max_delay`` (most steps from one result to the next), ``missing`` (copies that
    deletes did not find; deletes of tuples that a predicate or a NULL excludes are not looked up).
    """

    def __init__(self, plan: Plan) -> None:
        kinds = {node.kind for node in plan.nodes} - {"input", "virtual"}
        if kinds:
            raise CrownError(f"the reference engine takes input and virtual nodes, not {', '.join(sorted(kinds))}")
        nodes = plan.nodes
        self.plan = plan
        self.children = [[c for c, node in enumerate(nodes) if node.parent == e] for e in range(len(nodes))]
        self.free_nodes = [e for e, node in enumerate(nodes) if node.free]
        self.key = [_projection(node.attributes, node.key) for node in nodes]
        self.key_in_parent = [_projection(nodes[max(node.parent, 0)].attributes, node.key) for node in nodes]
        self.tables = {table.name: table for table in plan.tables}
        self.relations = stored_relations(plan)

        self.relation: list[dict[Row, int]] = [{} for _ in nodes]  # R_e, with multiplicities (1 in virtual nodes)
        self.counter: list[dict[Row, int]] = [{} for _ in nodes]
        # Per edge e → p(e), by key value. The root has no such edge, but one group, with key (), for its V_s.
        self.groups: list[dict[Row, _Group]] = [{} for _ in nodes]
        # output tuple → number of its enumerated results, if the plan counts them
        self.support: Counter[Row] = Counter()

        self.r_updates = self.s_updates = self.p_updates = self.steps = self.max_delay = self.missing = 0
        self._last_result = 0  # value of ``steps`` at the last result

    # -- changes -------------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, pa.Table | Iterable[Mapping[str, object]]]) -> Counter[Row]:
        """Applies one batch and returns its consolidated delta: output tuple → +1 or -1.

        ``changes``: relation → rows (column → value; ``_weight`` absent: +1). A batch is a Z-set: the weights of a
        tuple are summed, then all deletions are applied, then all insertions. A multiplicity never goes below zero;
        copies that a delete does not find are counted in ``missing``. Raises KeyError for an unknown relation or
        column, before any change.
        """
        weights = self._weights(changes)
        found: list[tuple[Result, int]] = []
        for sign in (-1, +1):
            for source, batch in self._turns(weights, sign):
                for row, weight in batch.items():
                    if weight * sign > 0:
                        for alias in source.aliases:  # the aliases of a self-join are applied one after the other
                            found.extend((result, sign) for result in self._change(alias, row, weight))
            found.extend((result, sign) for result in padded.update_paddings(self, weights, sign))
        delta: Counter[Row] = Counter()
        for output, sign in self._outputs(found):
            delta[output] += sign
        if self.plan.support:
            delta = self._supported(delta)
        return Counter({row: weight for row, weight in delta.items() if weight})

    def _turns(
        self, weights: list[tuple[StoredRelation, Counter[Row]]], sign: int
    ) -> list[tuple[StoredRelation, Counter[Row]]]:
        """Returns the changes of relations in the order in which they are applied.

        Only the number of steps depends on it.
        """
        return weights

    def _weights(
        self, changes: Mapping[str, pa.Table | Iterable[Mapping[str, object]]]
    ) -> list[tuple[StoredRelation, Counter[Row]]]:
        """Returns per stored relation the selected tuples that the batch changes, with summed weights."""
        for name in changes:
            self.tables[name]
        weights = []
        for relation in self.relations:
            rows = changes.get(relation.name, ())
            batch = rows.to_pylist() if isinstance(rows, pa.Table) else list(rows)
            types = {column.name: arrow_type(column.type) for column in self.tables[relation.name].columns}
            kept = [True] * len(batch)
            if relation.predicate is not None:
                used = {
                    name: pa.array([row[name] for row in batch], types[name]) for name in relation.predicate.columns
                }
                kept = _truth(relation.predicate, used, len(batch))
            summed: Counter[Row] = Counter()
            for row, keep in zip(batch, kept, strict=True):
                if keep:
                    summed[tuple(normalise(row[column]) for column in relation.columns)] += int(row.get("_weight", 1))
            weights.append((relation, summed))
        return weights

    def _change(self, alias: Alias, values: Row, weight: int) -> Iterator[Result]:
        """Applies the change of a tuple of a relation at one alias, unless a NULL excludes it.

        Yields the results that change.
        """
        if not any(values[word] is None for word in alias.not_null):
            row = tuple(values[word] for word in alias.words)
            if self._recount(alias.node, row, weight):
                yield from self.r_update(alias.node, row, 1 if weight > 0 else -1)

    def _recount(self, e: int, row: Row, weight: int) -> bool:
        """Adds ``weight`` to the multiplicity of ``row`` in R_e. Returns True if the row must enter or leave."""
        before = self.relation[e].get(row, 0)
        after = max(before + weight, 0)
        self.missing += after - (before + weight)
        if before and after:
            self.relation[e][row] = after
        elif after:
            self._link(e, row, after)
        return bool(before) != bool(after)

    # -- propagation (section 4.2; on deletion, enumeration first: section 5.2) ----------------------------------------

    def r_update(self, e: int, row: Row, sign: int) -> Iterator[Result]:
        """Applies R-UPDATE: ``row`` has entered R_e (sign +1) or leaves it (-1). Yields the results that change."""
        self.r_updates += 1
        if self.counter[e][row] == len(self.children[e]):
            yield from self.s_update(e, row, sign)
        if sign < 0:
            self._unlink(e, row)

    def s_update(self, e: int, row: Row, sign: int) -> Iterator[Result]:
        """Applies S-UPDATE: ``row`` enters or leaves V_s(e). Yields the results that change.

        Its key may enter or leave V_p(e); if not, the row may be a witness.
        """
        self.s_updates += 1
        group = self._group(e, self.key[e](row))
        flips = len(group.children) == (0 if sign > 0 else 1)
        if sign > 0:
            group.children[row] = None
        if e == 0 or (not flips and self.plan.nodes[e].free and group.live):
            yield from self.delta_enum(e, row)
            self.live_update(e, row, sign)
        elif flips:
            yield from self.p_update(e, self.key[e](row), sign)
        if sign < 0:  # last: the rows above are enumerated over this one while they leave
            del group.children[row]
            self._release(e, self.key[e](row))

    def p_update(self, c: int, key: Row, sign: int) -> Iterator[Result]:
        """Applies P-UPDATE: ``key`` enters or leaves V_p(c). Yields the results that change.

        The counter of each tuple of R_p with that key changes by one. In a virtual R_p the tuple itself enters with the
        first child that has it, and leaves with the last.
        """
        p = self.plan.nodes[c].parent
        complete = len(self.children[p])
        virtual = self.plan.nodes[p].kind == "virtual"
        if virtual and sign > 0 and not self.groups[c][key].parents:
            row = _projection(self.plan.nodes[c].key, self.plan.nodes[p].attributes)(key)
            self._link(p, row, 1)
            if complete == 1:
                yield from self.s_update(p, row, sign)
            return
        for row in list(self.groups[c][key].parents):
            self.p_updates += 1
            self.counter[p][row] += sign
            if self.counter[p][row] == (complete if sign > 0 else complete - 1):
                yield from self.s_update(p, row, sign)
            if virtual and self.counter[p][row] == 0:
                self._unlink(p, row)

    def live_update(self, e: int, row: Row, sign: int) -> None:
        """Lets ``row`` enter or leave V_l(e).

        A group propagates this to its children when its first live parent enters, or its last one leaves.
        """
        for c in self.children[e]:
            if not self.plan.nodes[c].free:
                continue
            group = self.groups[c][self.key_in_parent[c](row)]
            if sign > 0:
                group.live[row] = None
            else:
                del group.live[row]
            if len(group.live) == (1 if sign > 0 else 0):
                for child in group.children:
                    self.live_update(c, child, sign)

    # -- enumeration (section 5) ---------------------------------------------------------------------------------------

    def full_enum(self, nodes: list[int], result: Result) -> Iterator[Result]:
        """Yields all extensions of ``result`` by tuples of V_s of ``nodes`` (FULLENUM), parents before their children.

        No list that is walked is empty, so at most ``len(nodes)`` steps lie between two results.
        """
        if not nodes:
            self.max_delay = max(self.max_delay, self.steps - self._last_result)
            self._last_result = self.steps
            yield result
            return
        e, *rest = nodes
        key = tuple(result[name] for name in self.plan.nodes[e].key)
        group = self.groups[e].get(key)
        for row in group.children if group else ():
            yield from self.full_enum(rest, self._bind(e, row, result))

    def delta_enum(self, e: int, row: Row) -> Iterator[Result]:
        """Yields the results of witness ``row`` of node ``e`` (DELTAENUM): up over live parents, then down."""
        self._last_result = self.steps
        path = [e]
        while path[-1]:
            path.append(self.plan.nodes[path[-1]].parent)
        rest = [node for node in self.free_nodes if node not in path]

        def climb(e: int, row: Row, result: Result) -> Iterator[Result]:
            result = self._bind(e, row, result)
            if e == 0:
                yield from self.full_enum(rest, result)
                return
            for parent in self.groups[e][self.key[e](row)].live:
                yield from climb(self.plan.nodes[e].parent, parent, result)

        yield from climb(e, row, {})

    def results(self) -> Iterator[Row]:
        """Yields the distinct output tuples of the query over the current database, in no particular order."""
        if self.plan.support:
            yield from self.support
            return
        self._last_result = self.steps
        found = [(result, +1) for result in self.full_enum(self.free_nodes, {})]
        yield from (output for output, _ in self._outputs(found))

    def count(self) -> int:
        """Returns the number of distinct output tuples."""
        return sum(1 for _ in self.results())

    def contains(self, row: Row) -> bool:
        """Returns whether output tuple ``row`` is in the result: O(1) where the outputs name every free attribute."""
        row = tuple(normalise(value) for value in row)
        if self.plan.support:
            return row in self.support
        result = {
            output.expr.value: value
            for output, value in zip(self.plan.output, row, strict=True)
            if output.expr.op == "col"
        }
        if self.plan.residual or len(result) < len(row) or not set(self.plan.free) <= set(result):
            return row in set(self.results())
        for e in self.free_nodes:
            node = self.plan.nodes[e]
            group = self.groups[e].get(tuple(result[name] for name in node.key))
            if group is None or tuple(result[name] for name in node.attributes) not in group.children:
                return False
        return True

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _group(self, e: int, key: Row) -> _Group:
        return self.groups[e].setdefault(key, _Group())

    def _bind(self, e: int, row: Row, result: Result) -> Result:
        self.steps += 1
        return result | dict(zip(self.plan.nodes[e].attributes, row, strict=True))

    def _link(self, e: int, row: Row, multiplicity: int) -> None:
        """Stores ``row`` in R_e and in the group of each child. Counts the children that it joins with."""
        groups = [self._group(c, self.key_in_parent[c](row)) for c in self.children[e]]
        for group in groups:
            group.parents[row] = None
        self.relation[e][row] = multiplicity
        self.counter[e][row] = sum(1 for group in groups if group.children)

    def _unlink(self, e: int, row: Row) -> None:
        """Removes ``row`` from R_e, and the groups that are not needed any more."""
        del self.relation[e][row], self.counter[e][row]
        for c in self.children[e]:
            key = self.key_in_parent[c](row)
            group = self.groups[c][key]
            del group.parents[row]
            padded.remove_padding(self, c, group)
            self._release(c, key)

    def _release(self, e: int, key: Row) -> None:
        group = self.groups[e][key]
        if not group.children and not group.parents:
            del self.groups[e][key]

    def _outputs(self, found: list[tuple[Result, int]]) -> Iterator[tuple[Row, int]]:
        """Yields the output tuples of the results that pass the residual predicates, with their signs."""
        if not found:
            return
        columns = {
            name: pa.array([result[name] for result, _ in found], arrow_type(self.plan.attributes[name].type))
            for name in self.plan.free
        }
        kept = [True] * len(found)
        for predicate in self.plan.residual:
            kept = [a and b for a, b in zip(kept, _truth(predicate, columns, len(found)), strict=True)]
        outputs = [output.expr.evaluate(columns, len(found)).to_pylist() for output in self.plan.output]
        for i, (_, sign) in enumerate(found):
            if kept[i]:
                yield tuple(normalise(column[i]) for column in outputs), sign

    def _supported(self, delta: Counter[Row]) -> Counter[Row]:
        """Adds ``delta`` to the support counts. Returns the output tuples whose count left or reached zero."""
        changed: Counter[Row] = Counter()
        for row, weight in delta.items():
            before, after = self.support[row], self.support[row] + weight
            changed[row] = bool(after) - bool(before)
            if after:
                self.support[row] = after
            else:
                del self.support[row]
        return changed

    # -- invariants ----------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Recomputes every view from the input relations by its definition and compares. Raises AssertionError."""
        nodes = self.plan.nodes
        semi_joined: list[set[Row]] = [set() for _ in nodes]  # V_s
        projected: list[Counter[Row]] = [Counter() for _ in nodes]  # V_p with derivation counts
        for e in reversed(range(len(nodes))):
            if nodes[e].kind == "virtual":
                union = {
                    _projection(nodes[c].key, nodes[e].attributes)(key)
                    for c in self.children[e]
                    for key in projected[c]
                }
                _check(union == set(self.relation[e]), f"R of {nodes[e].name} is the union of its children's V_p")
            _check(all(copies >= 1 for copies in self.relation[e].values()), f"R of {nodes[e].name} has copies")
            for c in (c for c in self.children[e] if nodes[c].padded):
                for key in {self.key_in_parent[c](row) for row in self.relation[e]} - set(projected[c]):
                    semi_joined[c].add(padded.padding(nodes[c], key))
                    projected[c][key] += 1
            counts = {
                row: sum(1 for c in self.children[e] if self.key_in_parent[c](row) in projected[c])
                for row in self.relation[e]
            }
            _check(counts == self.counter[e], f"child counters of {nodes[e].name}")
            semi_joined[e] = {row for row in counts if counts[row] == len(self.children[e])}
            projected[e] = Counter(map(self.key[e], semi_joined[e]))
        live = [set(semi_joined[0]), *(set[Row]() for _ in nodes[1:])]  # V_l
        for e in self.free_nodes[1:]:
            wanted = {self.key_in_parent[e](row) for row in live[nodes[e].parent]}
            live[e] = {row for row in semi_joined[e] if self.key[e](row) in wanted}
        for e, node in enumerate(nodes):
            parents = self.relation[node.parent] if e else {}
            _check(
                self._lists(e, "children") == _grouped(self.key[e], semi_joined[e]),
                f"V_s and the derivation counts of {node.name}",
            )
            _check(
                self._lists(e, "parents") == _grouped(self.key_in_parent[e], parents),
                f"parents of the groups of {node.name}",
            )
            _check(
                self._lists(e, "live") == _grouped(self.key_in_parent[e], live[node.parent] if e and node.free else ()),
                f"live parents of the groups of {node.name}",
            )
            _check(all(g.children or g.parents for g in self.groups[e].values()), f"{node.name} keeps no empty group")
        if self.plan.support:
            found = [(result, +1) for result in self.full_enum(self.free_nodes, {})]
            _check(Counter(row for row, _ in self._outputs(found)) == self.support, "support counts")

    def _lists(self, e: int, which: str) -> dict[Row, set[Row]]:
        lists = {key: set(getattr(group, which)) for key, group in self.groups[e].items()}
        return {key: rows for key, rows in lists.items() if rows}


def _truth(predicate: Expr, columns: Mapping[str, pa.Array], length: int) -> list[bool]:
    """Returns per row whether ``predicate`` is TRUE (not FALSE, not NULL)."""
    return [value is True for value in predicate.evaluate(columns, length).to_pylist()]


def _grouped(key: Callable[[Row], Row], rows: Iterable[Row]) -> dict[Row, set[Row]]:
    groups: dict[Row, set[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), set()).add(row)
    return groups


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"the state does not agree with its definition: {what}")
