"""The legend of a page: every mark and symbol on the page, its meaning, and its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from plans.plan import BagAtom, Node, Plan
from plans.program import Program
from plans.programs.stages import JoinStage
from plans.search.cells.shares import hashable
from plans.search.counted.classes import edges
from plans.show import programs, upkeep

_CROWN = "Change Propagation Without Joins, PVLDB 16(5), 2023"
_HERE = "docs/explain.md"
_KINDS = {
    "join (set)": "the rows of a join, without multiplicities",
    "join (bag)": "the rows of a join, with multiplicities",
    "join (payload)": "counts and sums over a join, computed bottom-up in its tree",
    "linear": "rows that are copied, filtered or computed one by one",
    "pointwise": "set operations: the multiplicity of a row follows from its multiplicity in each input",
    "group": "a row for each group, with its aggregates",
    "group (percentile)": "a row for each group, whose values are kept in order",
    "top-k": "the first rows of each group in an order",
    "recursion (union)": "rows that are derived from the inputs and from each other, each once",
    "recursion (union all)": "rows that are derived from the inputs and from each other, as often as they are derived",
    "recursion (min)": "rows that are derived from the inputs and from each other, of each group the least",
    "recursion (max)": "rows that are derived from the inputs and from each other, of each group the greatest",
    "band join": "a join by a comparison: both sides are kept in the order of the compared values",
}
_OVER = "window functions: every row, with values computed from the rows around it in an order"
_CLASSES = (
    ("q-hierarchical", "a tree of height 1", f"{_CROWN}, Theorem 6.5"),
    ("keyed", "a change reaches one row of each relation above, by declared keys", _HERE),
    ("flat", "publishing changes costs no more than updating counters", _HERE),
    ("layered", "a change of a count touches all rows that join above it", _HERE),
    ("completed", "the enumeration includes attributes that are not in the output", _HERE),
    ("cyclic", "there is a bag", _HERE),
)
"""Kinds of stages and classes of joins, as pages name them."""


def legend(program: Program) -> str:
    """Returns the legend as HTML, with the marks of this program's page."""
    plans = [stage.plan for stage in program.stages if isinstance(stage, JoinStage)]
    items = [*_flow(program), *(_marks(plans, program.plan) if plans else ())]
    rows = "".join(f"<dt>{mark}</dt><dd>{escape(text)}{_cite(source)}</dd>" for mark, text, source in items)
    return f"<section><h2>What the marks mean</h2><dl class='legend'>{rows}</dl></section>"


def _cite(source: str) -> str:
    return f" <cite>[{escape(source)}]</cite>" if source else ""


def _flow(program: Program) -> list[tuple[str, str, str]]:
    if program.plan is not None:
        return []
    there = {programs.kind(stage) for stage in program.stages if not programs.dropped(stage)}
    return [
        ("a → b", "b reads the net changes of a, once per batch; the thick frame is the result", "docs/sql.md"),
        *((kind, text, _HERE) for kind, text in _KINDS.items() if kind in there),
        *((kind, _OVER, _HERE) for kind in sorted(there) if kind.startswith("over ")),
        ("O(1), O(log n)", "what a change of a stage's input costs, in addition to the rows that it changes", _HERE),
    ]


def _marks(plans: list[Plan], alone: Plan | None) -> list[tuple[str, str, str]]:
    nodes = [node for plan in plans for node in plan.nodes]
    known = [edge for plan in plans for edge in edges(plan).values()]
    counted = [plan for plan in plans if plan.payload is not None]
    sets = [plan for plan in plans if plan.payload is None]
    classes = {part for plan in plans if alone is None for part in upkeep.of_plan(plan).name.split(", ")}
    bound = ["counted and summed"] if _any(not n.free for plan in counted for n in plan.nodes) else []
    bound += ["not enumerated, it is a filter"] if _any(not n.free for plan in sets for n in plan.nodes) else []
    declared = any(table.key for plan in plans for table in plan.tables)
    found: list[tuple[bool, str, str, str]] = [
        (True, "<b class='good'>O(1)</b> <b class='fair'>O(λ)</b> <b class='poor'>O(√N)</b>",
         "the verdict: constant or logarithmic; dependent on the stream or the joined rows; more", _HERE),
        *((word in classes, word, text, source) for word, text, source in _CLASSES),
        (True, "<i class='free'></i>", "free: its attributes are in the output, its rows are enumerated", _CROWN),
        (bool(bound), "<i class='bound'></i>", f"bound: its rows are {', or '.join(bound)}", _CROWN),
        (_any(n.kind == "virtual" for n in nodes), "<i class='virtual'></i>",
         "virtual node: a row for each key that its children share", f"{_CROWN}, Definition 3.1"),
        (_any(n.kind == "bag" for n in nodes), "<i class='bag'></i>",
         "bag: a cyclic part, kept as one relation; N^width bounds its rows, and keys may bound them more",
         "Atserias, Grohe, Marx, SIAM J. Comput. 2013"),
        (_any(n.predicate is not None for n in _atoms(nodes)), "<b class='where'>where</b>",
         "only these rows are read", "docs/sql.md"),
        (_any(n.relation.startswith("#") for n in nodes), "of #0", "its rows are those of stage 0", _HERE),
        (_any(out.expr.op == "col" for plan in plans for out in plan.output), "<b class='out'>a</b>",
         "a column of the output", _HERE),
        (declared, "<u>a</u>", "a column of the declared key of its table", "docs/sql.md"),
        (len(nodes) > 1, "a, b", "on an edge: its key, the attributes that both ends have; × if there is none", _CROWN),
        (True, "V<sub>s</sub>", "the rows that join with rows of every subtree below", f"{_CROWN}, Algorithm 1"),
        (len(nodes) > 1, "V<sub>p</sub>(a)", "their projection on the key of the edge above", f"{_CROWN}, Algorithm 1"),
        (_any(n.free for n in nodes), "V<sub>l</sub>", "the rows that are in a result", f"{_CROWN}, Lemma 5.5"),
        (_any(plan.listed for plan in plans), "not stored",
         "the bag lists the rows, and their changes, from its relations", _HERE),
        (_any(n.padded for n in nodes), "or NULLs",
         "left joined: a row of NULLs replaces the missing rows of a key", _HERE),
        (True, "λ", "enclosureness of the stream under the tree: how often lifespans enclose others",
         f"{_CROWN}, Definition 6.3"),
        (_any(upkeep.payload_words(plan, i) for plan in counted for i in range(len(plan.nodes))), "payload n",
         "words of each group for its count and sums", "F-IVM: Nikolic, Olteanu, SIGMOD 2018"),
        (_any(e.quiet for e in known), "<i class='quiet'></i> quiet",
         "its payload changes only when a key is inserted or deleted, by declared keys", _HERE),
        (_any(e.to_bound and e.fan_one and not e.quiet for e in known), "fan 1",
         "a changed group touches at most one row above", _HERE),
        (_any(e.open for e in known), "<i class='open'></i> fan ?",
         "a changed group touches all rows above with its key, any number of them", _HERE),
        (bool(sets), "Σ depth·rate", "what the search minimizes after the height: how far updates climb",
         f"{_CROWN}, Section 6.3"),
        (bool(counted), "Σ touches", "what the search minimizes if rows are counted: rows touched by publications",
         _HERE),
        (_any(plan.candidate_count > 1 for plan in plans), "✓",
         "the chosen tree, among all trees and their costs", f"{_CROWN}, Section 6.3"),
        (bool(alone and hashable(alone)), "×2", "a row of this relation is sent to two of the cells", _HERE),
        (bool(alone and hashable(alone)), "shares", "a row is sent to all cells that its hash keys leave open",
         "Beame, Koutris, Suciu, J. ACM 2017"),
    ]  # fmt: skip
    return [(mark, text, source) for shown, mark, text, source in found if shown]


def _atoms(nodes: list[Node]) -> Iterator[Node | BagAtom]:
    """Yields the nodes and atoms with rows of their own: nodes, and the relations inside bags."""
    for node in nodes:
        yield node
        yield from () if node.bag is None else node.bag.atoms


def _any(found: Iterable[object]) -> bool:
    return any(found)
