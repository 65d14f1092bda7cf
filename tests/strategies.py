"""Random queries, random databases and random changes, for hypothesis.

A query is drawn as a join tree (so it is acyclic), given relations (self-joins where the columns fit), constants,
repeated variables, unused columns and predicates, and outputs that keep it free-connex. It renders itself as SQL and as
Datalog. Values come from small pools per type, so that joins hit, with NULL and the extremes of the type among them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from hypothesis import strategies as st

from plans.expressions.build import Expr
from plans.plan import Attribute, Node, Output, Plan
from plans.schema import Schema

UTC = dt.UTC

VALUES: dict[str, tuple[object, ...]] = {
    "int64": (0, 1, 2, -1, 2**63 - 1, -(2**63) + 1),  # -2^63 is the engine's code for NULL
    "int32": (0, 1, 2, -(2**31), 2**31 - 1),
    "string": ("", "a", "b, which its code does not hold", "ä€", "a b"),
    "bool": (False, True),
    "float64": (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")),
    "date": (dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(1903, 12, 17), dt.date(9999, 12, 31)),
    "timestamp": (
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        dt.datetime(1903, 12, 17, 10, 35, tzinfo=UTC),
    ),
    "timestamp_ntz": (
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 3, 31, 2, 30),  # does not exist on European clocks
        dt.datetime(1903, 12, 17, 10, 35, 0, 1),
    ),
    "decimal(10,2)": (Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")),
    "binary": (b"", b"\x00", b"a\xff" * 4),
}
"""Per type, the values that random rows are made of; the first ones are the most frequent."""

LITERALS: dict[str, dict[object, str]] = {
    "int64": {1: "1", -1: "-1", 0: "0"},
    "int32": {1: "1", 0: "0"},
    "string": {"a": "'a'", "": "''", "ä€": "'ä€'"},
    "date": {dt.date(2024, 2, 29): "'2024-02-29'"},
    "decimal(10,2)": {Decimal("-1.50"): "-1.50"},
}
"""Per type, some values with their text in SQL (and in Datalog)."""

CYCLES = {
    "triangle": ((0, 1), (1, 2), (2, 0)),
    "square": ((0, 1), (1, 2), (2, 3), (3, 0)),
    "square with a diagonal": ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2)),
    "bow-tie": ((0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0)),
    "wide triangle": ((0, 1, 2), (1, 2, 3), (3, 0)),
    "lollipop": ((0, 1), (1, 2), (2, 0), (2, 3)),
    "triangles in a row": ((0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)),
}
"""Cyclic cores of random queries: atoms as tuples of vertices."""

ORDERED = ("int64", "int32", "string", "date", "decimal(10,2)")


@dataclass(frozen=True)
class Atom:
    """``relation AS alias``: per column, the variable it binds, the literal it must equal, or nothing."""

    alias: str
    relation: str
    terms: tuple[str | None, ...]
    literals: tuple[str | None, ...]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(term for term in self.terms if term is not None)


@dataclass(frozen=True)
class Query:
    """A conjunctive query over ``tables`` (relation → column → type), and its two texts."""

    tables: Mapping[str, Mapping[str, str]]
    atoms: tuple[Atom, ...]
    outputs: tuple[str, ...]
    predicates: tuple[str, ...]  # over {variable}, as format strings
    joins: bool = False  # write JOIN … ON instead of a comma list
    computed: tuple[str, ...] = ()  # output expressions over {variable}; SQL only
    null_safe: frozenset[str] = frozenset()  # variables in which NULL joins with NULL; SQL only

    @property
    def only_sql(self) -> bool:
        """Whether the query says something that the Datalog text cannot."""
        return bool(self.computed or self.null_safe)

    def _places(self) -> dict[str, list[str]]:
        places: dict[str, list[str]] = {}
        for atom in self.atoms:
            for column, term in zip(self.tables[atom.relation], atom.terms, strict=True):
                if term is not None:
                    places.setdefault(term, []).append(f"{atom.alias}.{column}")
        return places

    @property
    def sql(self) -> str:
        """SELECT DISTINCT …; a boolean query selects the constant 1."""
        places = self._places()
        first = {variable: where[0] for variable, where in places.items()}
        equal = [
            f"{where[0]} {'IS NOT DISTINCT FROM' if variable in self.null_safe else '='} {other}"
            for variable, where in places.items()
            for other in where[1:]
        ]
        equal += [
            f"{atom.alias}.{column} = {literal}"
            for atom in self.atoms
            for column, literal in zip(self.tables[atom.relation], atom.literals, strict=True)
            if literal is not None
        ]
        equal += [predicate.format(**first) for predicate in self.predicates]
        columns = [f"{first[name]} AS {name}" for name in self.outputs]
        columns += [f"{text.format(**first)} AS e{i}" for i, text in enumerate(self.computed)]
        outputs = ", ".join(columns) or "1 AS one"
        names = [f"{atom.relation} AS {atom.alias}" for atom in self.atoms]
        if not self.joins or not equal:
            where_text = f" WHERE {' AND '.join(equal)}" if equal else ""
            return f"SELECT DISTINCT {outputs} FROM {', '.join(names)}{where_text}"
        text = f"SELECT DISTINCT {outputs} FROM {names[0]}"
        if len(names) == 1:
            return f"{text} WHERE {' AND '.join(equal)}"
        *early, last = names[1:]
        return f"{text}{''.join(f' CROSS JOIN {name}' for name in early)} JOIN {last} ON {' AND '.join(equal)}"

    @property
    def datalog(self) -> str:
        """``Q(x, y) :- R(x, z), S(z, y), z > 1.``"""
        atoms = []
        for atom in self.atoms:
            terms = (term or literal or "_" for term, literal in zip(atom.terms, atom.literals, strict=True))
            atoms.append(f"{atom.relation}({', '.join(terms)})")
        variables = {variable: variable for variable in self._places()}
        body = atoms + [predicate.format(**variables) for predicate in self.predicates]
        return f"Q({', '.join(self.outputs)}) :- {', '.join(body)}."

    def __repr__(self) -> str:
        return f"{self.sql}  -- { ({name: dict(columns) for name, columns in self.tables.items()}) }"


def acyclic(edges: Iterable[frozenset[str]]) -> bool:
    """GYO: drop what occurs once, drop what is contained, until nothing changes."""
    left = [set(edge) for edge in edges]
    while True:
        lonely = [name for edge in left for name in edge if sum(name in other for other in left) == 1]
        contained = [i for i, e in enumerate(left) if any(e <= f for j, f in enumerate(left) if j != i)]
        if lonely:
            left = [edge - set(lonely) for edge in left]
        elif contained:
            del left[contained[0]]
        else:
            return len(left) == 1


def free_connex(atoms: Iterable[Atom], outputs: Iterable[str]) -> bool:
    """The hypergraph with the outputs as one more edge is acyclic too."""
    return acyclic([*(atom.variables for atom in atoms), frozenset(outputs)])


@st.composite
def queries(draw: st.DrawFn, max_atoms: int = 4, any_output: bool = False, cyclic: bool = False) -> Query:
    """A random acyclic query; free-connex unless ``any_output``. ``cyclic``: its first atoms are one of ``CYCLES``."""
    one_type = draw(st.sampled_from(["int64", "int64", "int64", "string", "string" if cyclic else None]))
    types: dict[str, str] = {}
    tables: dict[str, dict[str, str]] = {}
    atoms: list[Atom] = []
    core = CYCLES[draw(st.sampled_from(sorted(CYCLES)))] if cyclic else ()
    for i in range(draw(st.integers(0 if core else 1, max_atoms - 2 if core else max_atoms)) + len(core)):
        shared: list[str] = []
        if i < len(core):
            shared = [f"x{vertex}" for vertex in core[i] if f"x{vertex}" in types]
            fresh = [f"x{vertex}" for vertex in core[i] if f"x{vertex}" not in types]
        else:
            if atoms:
                above = sorted(draw(st.sampled_from(atoms)).variables)
                least = draw(st.integers(0, 1))
                shared = draw(st.lists(st.sampled_from(above), unique=True, min_size=least, max_size=3))
            fresh = [f"x{len(types) + k}" for k in range(draw(st.integers(0 if shared else 1, 2)))]
        for name in fresh:
            types[name] = one_type or draw(st.sampled_from(sorted(VALUES)))
        terms: list[str | None] = list(draw(st.permutations(shared + fresh)))
        literals: list[str | None] = [None] * len(terms)
        kinds = [types[name] for name in terms if name is not None]
        plain = i < len(core)
        if not plain and draw(st.integers(0, 5)) == 0:  # one variable twice
            again = draw(st.sampled_from(shared + fresh))
            terms, literals, kinds = [*terms, again], [*literals, None], [*kinds, types[again]]
        if not plain and draw(st.integers(0, 4)) == 0:  # a constant, or a column that the query does not use
            kind = one_type or draw(st.sampled_from(sorted(LITERALS)))
            literal = draw(st.sampled_from([*LITERALS[kind].values(), None]))
            terms, literals, kinds = [*terms, None], [*literals, literal], [*kinds, kind]
        fitting = [name for name, columns in tables.items() if list(columns.values()) == kinds]
        if fitting and draw(st.booleans()):
            relation = draw(st.sampled_from(fitting))
        else:
            relation = f"r{len(tables)}"
            tables[relation] = {f"c{k}": kind for k, kind in enumerate(kinds)}
        atoms.append(Atom(f"t{i}", relation, tuple(terms), tuple(literals)))
    variables = sorted(types)
    boolean = draw(st.integers(0, 9)) == 9
    outputs = [] if boolean else draw(st.permutations(variables))[: draw(st.integers(1, len(variables)))]
    missing = draw(st.permutations([name for name in variables if name not in outputs]))
    while not any_output and not cyclic and not free_connex(atoms, outputs):
        outputs = [*outputs, missing[0]]
        missing = missing[1:]
    predicates = [draw(_predicates(types)) for _ in range(draw(st.sampled_from([0, 1, 0, 2])))]
    return Query(
        tables,
        tuple(atoms),
        tuple(outputs),
        tuple(predicate for predicate in predicates if predicate),
        joins=draw(st.booleans()),
        computed=tuple(draw(_expressions(types)) for _ in range(draw(st.sampled_from([0, 0, 0, 1])))),
        null_safe=frozenset(draw(st.lists(st.sampled_from(variables), max_size=2)))
        if draw(st.booleans())
        else frozenset(),
    )


@st.composite
def _predicates(draw: st.DrawFn, types: Mapping[str, str]) -> str:
    """A condition on one variable, or on two of one type (maybe of different atoms)."""
    ordered = [name for name in sorted(types) if types[name] in ORDERED]
    if not ordered or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(["{%s} IS NOT NULL", "{%s} IS NULL"])) % draw(st.sampled_from(sorted(types)))
    one, two = draw(_comparisons(types, ordered)), draw(_comparisons(types, ordered))
    return draw(st.sampled_from([one, one, one, f"({one} OR {two})", f"(NOT ({one}))"]))


@st.composite
def _comparisons(draw: st.DrawFn, types: Mapping[str, str], ordered: list[str]) -> str:
    name = draw(st.sampled_from(ordered))
    others = [other for other in ordered if types[other] == types[name] and other != name]
    if others and draw(st.booleans()):
        return f"{{{name}}} {draw(st.sampled_from(['<', '<=', '>', '>=', '<>']))} {{{draw(st.sampled_from(others))}}}"
    literal = draw(st.sampled_from(sorted(LITERALS[types[name]].values())))
    return f"{{{name}}} {draw(st.sampled_from(['<', '<=', '>', '>=', '<>', '=']))} {literal}"


@st.composite
def _expressions(draw: st.DrawFn, types: Mapping[str, str]) -> str:
    """An output that several rows can share: a truth value, a choice, a replaced NULL, a constant."""
    ordered = [name for name in sorted(types) if types[name] in ORDERED]
    if not ordered:
        return f"{{{draw(st.sampled_from(sorted(types)))}}} IS NULL"
    name = draw(st.sampled_from(ordered))
    literal = draw(st.sampled_from(sorted(LITERALS[types[name]].values())))
    test = draw(_comparisons(types, ordered))
    whole = [test, f"CASE WHEN {test} THEN 'yes' ELSE 'no' END", "7"]
    if types[name] != "date":  # whose literals are strings
        whole.append(f"COALESCE({{{name}}}, {literal})")
    return draw(st.sampled_from(whole))


def rows(columns: Mapping[str, str]) -> st.SearchStrategy[tuple[object, ...]]:
    """A row of a table: mostly of two frequent values per type, so that joins hit; now and then anything, NULL too."""
    frequent = st.tuples(*(st.sampled_from(VALUES[kind][:2]) for kind in columns.values()))
    anything = st.tuples(*(st.sampled_from([*VALUES[kind], None]) for kind in columns.values()))
    return st.one_of(frequent, frequent, anything)


Batch = dict[str, list[tuple[tuple[object, ...], int]]]
"""Changes as the tests write them: relation → [(row, weight), …], rows over all columns of the table."""


def loads(query: Query, size: int = 8) -> st.SearchStrategy[Batch]:
    """Insertions into every relation."""
    return st.fixed_dictionaries(
        {
            name: st.lists(st.tuples(rows(columns), st.sampled_from([1, 1, 1, 2])), min_size=size // 2, max_size=size)
            for name, columns in query.tables.items()
        }
    )


def batches(
    query: Query, present: Mapping[str, Iterable[tuple[object, ...]]], size: int = 5
) -> st.SearchStrategy[Batch]:
    """Insertions and deletions mixed, of any rows and of ``present`` ones, weights of both signs (also 0)."""
    weights = st.sampled_from([1, -1, -1, 1, 2, -2, 3, 0])
    parts = {}
    for name, columns in query.tables.items():
        here = list(present[name])
        change = st.tuples(rows(columns), weights)
        if here:
            change = st.one_of(
                change, st.tuples(st.sampled_from(here), weights), st.tuples(st.sampled_from(here), weights)
            )
        parts[name] = st.lists(change, max_size=size)
    return st.fixed_dictionaries({}, optional=parts)


def removals(present: Mapping[str, Mapping[tuple[object, ...], int]]) -> st.SearchStrategy[Batch]:
    """Some of the ``present`` rows, each with all its copies."""
    filled = {name: sorted(copies.items(), key=repr) for name, copies in present.items() if copies}
    return st.fixed_dictionaries(
        {},
        optional={
            name: st.lists(st.sampled_from(copies), unique_by=lambda change: repr(change[0])).map(
                lambda changes: [(row, -weight) for row, weight in changes]
            )
            for name, copies in filled.items()
        },
    )


@st.composite
def normal_plans(draw: st.DrawFn, max_nodes: int = 7) -> tuple[Query, Plan]:
    """A random plan in normal form, and the query that it is a plan of: also trees that no planner would choose.

    Free nodes on top, virtual ones among them at any height, up to four children, self-joins, Cartesian products under
    the root ``[]``, boolean queries.
    """
    nodes: list[Node] = []
    names = iter(f"x{k}" for k in range(100))
    free: list[str] = []

    def add(parent: int, key: tuple[str, ...], kind: str, fresh_count: int, keep: bool) -> int:
        above = parent < 0 or nodes[parent].free
        fresh = [next(names) for _ in range(fresh_count)]
        if above and keep:
            free.extend(fresh)
        attributes = tuple(draw(st.permutations([*key, *fresh])))
        name = f"t{len(nodes)}" if kind == "input" else f"[{','.join(attributes)}]#{len(nodes)}"
        nodes.append(Node(name, kind, attributes, parent, key, above and (keep or not fresh)))
        return len(nodes) - 1

    def grow(e: int, depth: int) -> None:
        virtual = nodes[e].kind == "virtual"
        most = 4 if depth < 2 else 2 if depth < 4 else 0
        for _ in range(draw(st.integers(1 if virtual else 0, max(most, 1 if virtual else 0)))):
            if len(nodes) >= max_nodes and not (virtual and nodes[-1] is nodes[e]):
                return
            own = nodes[e].attributes
            size = len(own) if virtual else draw(st.integers(1, max(len(own), 1)))
            key = tuple(draw(st.permutations(own)))[:size]
            kind = "virtual" if depth < 3 and draw(st.integers(0, 3)) == 0 else "input"
            fresh = draw(st.integers(0 if key else 1, 2))
            grow(add(e, key, kind, fresh, keep=draw(st.integers(0, 3)) > 0), depth + 1)

    kind = draw(st.sampled_from(["input", "virtual"]))
    grow(add(-1, (), kind, draw(st.integers(0 if kind == "virtual" else 1, 2)), keep=True), 0)
    tables: dict[str, dict[str, str]] = {}
    atoms = []
    for i, node in enumerate(nodes):
        if node.kind != "input":
            continue
        fitting = [name for name, columns in tables.items() if len(columns) == len(node.attributes)]
        relation = draw(st.sampled_from([*fitting, f"r{len(tables)}"]))
        tables.setdefault(relation, {f"c{k}": "int64" for k in range(len(node.attributes))})
        atoms.append(Atom(node.name, relation, node.attributes, (None,) * len(node.attributes)))
        nodes[i] = replace(node, relation=relation, columns=tuple(tables[relation]))
    query = Query(tables, tuple(atoms), tuple(free), ())
    attributes = {name: Attribute(name, "int64", False) for node in nodes for name in node.attributes}
    outputs = tuple(Output(name, "int64", Expr("col", "int64", (), name)) for name in free)
    schema = Schema.of(tables)
    plan = Plan(
        query=query.sql,
        nodes=tuple(nodes),
        attributes=attributes,
        free=tuple(free),
        residual=(),
        output=outputs,
        support=False,
        consolidated=len(free) == len(attributes),
        tables=tuple(schema[name] for name in schema),
    )
    return query, plan
