"""The cost of maintaining a program: class, cost per change and memory of each stage, and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from plans.payloads.payload import EXISTS, doubles_of, limbs_of
from plans.payloads.sums import LISTED, ORDERED
from plans.plan import Node, Plan
from plans.program import Program
from plans.programs.frames import keep_values
from plans.programs.stages import (
    GROUPS,
    ROWS,
    SUMS,
    Band,
    BandStage,
    FixpointStage,
    GroupStage,
    JoinStage,
    LinearStage,
    OverStage,
    PointwiseStage,
    SingleStage,
    SliceStage,
    Stage,
    TimedStage,
    TopStage,
)
from plans.search.counted.classes import (
    BAG,
    CONSTANT,
    ENCLOSED,
    ENUMERATED,
    FIRST_ORDER,
    LOGARITHMIC,
    RECURSIVE,
    join_class,
)
from plans.search.indexes import index_of
from plans.serial import kind_name
from plans.types import in_a_word

_ROW, _GROUP = 2, 3  # words of a row besides its values and children, and of a group


@dataclass(frozen=True)
class Upkeep:
    """What a stage costs: `name` of its class, `growth` (`plans.search.counted.classes`), `update` and `memory` in
    words, and `witness` and `path` of a join."""

    name: str
    growth: int
    update: str
    memory: str
    witness: str = ""
    path: tuple[str, ...] = ()


def upkeep(stage: Stage) -> Upkeep:
    """Returns what a change of a stage's input costs, and what state the stage keeps."""
    if isinstance(stage, JoinStage):
        return of_plan(stage.plan)
    if isinstance(stage, LinearStage):
        return Upkeep("linear", CONSTANT, "O(1) per change", "nothing")
    if isinstance(stage, PointwiseStage):
        return Upkeep("pointwise", CONSTANT, "O(1) per change", "a row and a count for each stored row")
    if isinstance(stage, SingleStage):
        return Upkeep("single", CONSTANT, "O(1) per change", "every row, by its key")
    if isinstance(stage, TopStage):
        memory = "every row, in order"
        return Upkeep("top", LOGARITHMIC, "O(log n) per change, n the rows of a group, and the rows that move", memory)
    if isinstance(stage, OverStage):
        return _of_over(stage)
    if isinstance(stage, SliceStage):
        update = "O(log n) per change and O(1) per row that is selected or no longer is, n the rows of a partition"
        memory = "every value of the order, with its sums"
        return Upkeep("slice", LOGARITHMIC, f"{update}; more where sums rise and fall around the bound", memory)
    if isinstance(stage, TimedStage):
        update = "O(log n) per change and O(1) per row whose time begins or ends, n the rows"
        return Upkeep("timed", LOGARITHMIC, update, "every row, by the time at which it is inserted or deleted")
    if isinstance(stage, BandStage):
        return _of_band(stage.band)
    if isinstance(stage, FixpointStage):
        return _of_fixpoint(stage)
    return _of_group(stage)


def _of_band(band: Band) -> Upkeep:
    """Returns the cost of a join by a comparison. A change of one side finds the rows of the other as these are
    stored."""
    update = "O(log n) per change, n the rows of a side"
    for kept, mine, other in zip(band.kept, ("bands", "points"), ("point", "band"), strict=True):
        update += {SUMS: "", GROUPS: f", once for each group of {mine} per changed {other}",
                   ROWS: f", and O(1) for each of the {mine} that a changed {other} matches"}[kept]  # fmt: skip
    return Upkeep("band", LOGARITHMIC, update, "every row of both sides, in the order of points and bounds")


_REACHED = {
    "local": (LOGARITHMIC, "the rows whose frames hold the change"),
    "match": (LOGARITHMIC, "the rows that match it, up to the next row that can be matched"),
    "runs": (LOGARITHMIC, "the rows of a session that others join, or leave"),
    "flip": (LOGARITHMIC, "the rows whose value changes"),
    "range": (ENCLOSED, "the rows whose frames hold the change"),
    "shift": (ENCLOSED, "the rows after the change"),
    "partition": (ENCLOSED, "the rows of its partition"),
}


def _of_over(stage: OverStage) -> Upkeep:
    """Returns the cost of window functions: that of the function with the most changed values per change."""
    found = {one: "flip" if one.flips and in_a_word(one.type) else one.growth for one in stage.functions}
    worst = max(stage.functions, key=lambda one: list(_REACHED).index(found[one]))
    class_ = found[worst]
    growth, reached = _REACHED[class_]
    update = f"O(log n) per change, n the rows of a partition, and {reached}"
    width = max((one.width for one in stage.functions), default=0)
    if class_ == "local" and width:
        update += f", {width} at most"
    witness = f"{worst.function.upper()} has the class {class_}" if growth == ENCLOSED else ""
    read = [one for one in stage.functions if one.gathered]
    if read:
        bounded = all(one.frame is not None and one.frame.bounded for one in read)
        all_ = any(one.frame is None or not (one.frame.bounded or one.keeps_values) for one in read)
        again = "of the partition" if all_ else "of these frames" if bounded else "of these rows"
        listed = not bounded and any(one.function in LISTED for one in read)
        update += f"; the values {again} are read again{', for each of these rows' if listed else ''}"
        witness = witness or f"{read[0].function.upper()} reads the values of a frame that changes"
    kept = ", and the values of each partition in order" if keep_values(stage.functions) else ""
    return Upkeep(f"over, {class_}", growth, update, f"every row, in order, with its sums{kept}", witness)


def _of_fixpoint(stage: FixpointStage) -> Upkeep:
    worst = max(map(upkeep, stage.stages), key=lambda cost: cost.growth)
    update = "as many steps as derivations change with it, in as many rounds as they are deep"
    witness = "" if worst.growth == CONSTANT else f"a derivation costs: {worst.update}"
    if stage.best:
        update += ", and O(log n) per row, n the rows that differ only in the best value"
    memory = "every row that is derived, with its counts, and the state of the stages that derive it"
    return Upkeep("recursive", RECURSIVE, update, memory, witness)


def _of_group(stage: GroupStage) -> Upkeep:
    ordered = [a for a in stage.aggregates if a.function in ORDERED]
    several = [a for a in stage.aggregates if a.distinct or a.function in ORDERED]
    memory = f"for each group its key of {len(stage.keys)} and its sums" if stage.keys else "one group"
    if several:
        names = dict.fromkeys(name for call in several for name in call.arguments)
        memory += f", a row for each distinct value of {', '.join(names)}"
    if ordered:
        listed = next((a for a in ordered if a.function in LISTED), None)
        if listed is not None:
            witness = f"{listed.function.upper()} reads all values of a group that changes"
            return Upkeep("group", ENCLOSED, "O(values of the groups that change)", memory, witness)
        witness = f"{ordered[0].function.upper()} keeps its values in order"
        return Upkeep("group", LOGARITHMIC, "O(log n) per change, n the values of a group", memory, witness)
    return Upkeep("group", CONSTANT, "O(1) per change", memory)


def of_plan(plan: Plan) -> Upkeep:
    """Returns the cost of a join core."""
    found = join_class(plan)
    return Upkeep(found.name, found.growth, found.update, _memory(plan), found.witness, found.path)


def _memory(plan: Plan) -> str:
    if plan.count is not None:
        return "the tuples of its atoms, and tables of what they have in common: O(N) words"
    if plan.listed:
        return _memory_of_bag(plan.nodes[0])
    rows = [f"{plan.nodes[i].name} {row_words(plan, i)}" for i in range(len(plan.nodes))]
    index = index_of(plan)
    edges = {of: [i for i in range(1, len(plan.nodes)) if index[i] == of] for of in index[1:]}
    keys = [f"{' and '.join(plan.nodes[i].name for i in e)} {key_words(plan, of)}" for of, e in edges.items()]
    groups = f"; words of a key above a node: {', '.join(keys)}" if keys else ""
    return f"words of a row: {', '.join(rows)}{groups}"


def _memory_of_bag(node: Node) -> str:
    if node.bag is not None and node.bag.method == "triangle":
        return "the tuples of its atoms, and the wedges of heavy values: O(N^1.5) words, or O(N) when memory is short"
    return "the tuples of its atoms, each with the prefixes that a search binds: O(N) words"


def row_words(plan: Plan, i: int) -> int:
    """Returns the words of a row of a node: its values, which aliases of a relation share, and its links.

    Without a payload, the root has one word less, and so has every alias but the first of its relation.
    """
    return len(plan.nodes[i].attributes) + _ROW + len(plan.children(i))


def key_words(plan: Plan, i: int) -> int:
    """Returns the words of a key in the index of the edge above a node: its values, and a group with its payload per
    edge that shares the index."""
    index = index_of(plan)
    edges = [e for e in range(1, len(plan.nodes)) if index[e] == index[i]]
    payloads = [payload_words(plan, e) for e in edges]
    referred = [plan.nodes[e].padded or (plan.nodes[e].free and bool(plan.children(e))) for e in edges]
    return len(plan.nodes[i].key) + sum(_GROUP + (words + 1 if words else 0) for words in payloads) + sum(referred)


def payload_words(plan: Plan, i: int) -> int:
    """Returns the words of the payload of a group above a node, or 0 if it has none."""
    if plan.payload is None or plan.nodes[i].free or plan.payload.kinds[i] == EXISTS:
        return 0
    inside = {i}
    for below in range(i + 1, len(plan.nodes)):
        if plan.nodes[below].parent in inside:
            inside.add(below)
    parts = {tuple(sorted(factor for factor in term if factor[0] in inside)) for term in plan.payload.terms}
    factors = [[(plan.attributes[name].type, what) for _, name, what in part] for part in parts]
    return sum(limbs_of(part) + (doubles_of(part) > 0) for part in factors)


def verdict(program: Program) -> str:
    """Returns the worst cost of a change in one line, with the stage that determines it."""
    costs = [upkeep(stage) for stage in program.stages]
    worst = max(range(len(costs)), key=lambda i: costs[i].growth, default=None)
    if worst is None:
        return "nothing is maintained yet"
    several = len(costs) > 1 and program.plan is None
    where = f" (stage {worst})" if several and costs[worst].growth != CONSTANT else ""
    return "incremental: " + in_short(costs[worst]) + where


def in_short(cost: Upkeep) -> str:
    """Returns the cost of a change without its reasons."""
    if cost.growth == FIRST_ORDER:
        return f"first order along {' -> '.join(cost.path)}"
    if cost.growth == ENUMERATED:
        return f"{cost.update[:4]} per change, and the joined rows that change"
    if cost.growth == ENCLOSED:
        return cost.update.replace(" amortized", "").partition(", and")[0]
    if cost.growth == RECURSIVE:
        return f"recursive, {cost.update.partition(',')[0]}"
    return cost.update.partition(";")[0] if cost.growth == BAG else cost.update.partition(" and ")[0].removesuffix(",")


_MEANING = {
    CONSTANT: "A changed row costs the same, however large the tables are.",
    LOGARITHMIC: "A changed row costs nearly the same, however large the tables are.",
    ENCLOSED: "A changed row costs the same if rows are only inserted, or are deleted in the order in which they "
    "were inserted. On other streams it costs λ, which `crown profile` measures on your log.",
    ENUMERATED: "A changed row costs as many steps as joined rows change with it, even if the result does not show "
    "them.",
    FIRST_ORDER: "A changed row costs as many steps as there are rows that join with it along {path}: few if a key has "
    "few rows there, many if one has many.",
    BAG: "The query is cyclic: a changed row is joined with the rest of its cycle, which costs more the larger the "
    "tables are.",
    RECURSIVE: "A changed row costs as many steps as derivations are gained or lost with it. Where rows derive each "
    "other in circles, a delete also derives rows again that stay.",
}
_REMEDY = {
    ENCLOSED: "Nothing needs to be done for streams of inserts.",
    ENUMERATED: "To avoid this, select the columns that were added to the output, or declare the keys of the tables.",
    FIRST_ORDER: "To avoid this, declare the keys that your data have: with `key` in the schema of {tables}. "
    "`explain(analyze=True)` names the keys that fit the data so far.",
    RECURSIVE: "Conditions on the first rows, such as the nodes from which paths begin, keep a recursion small.",
    BAG: "No declaration changes that. Filters that leave few rows of the cycle help.",
}


def advice(program: Program) -> tuple[str, str]:
    """Returns what the verdict means for the user, and what the user can do about it, or "" if nothing."""
    costs = [upkeep(stage) for stage in program.stages]
    worst = max(costs, key=lambda cost: cost.growth)
    if worst.growth == ENCLOSED and not worst.path and worst.name == "group":
        return f"A changed row costs as many steps as its group has rows: {worst.witness}.", ""
    path = " -> ".join(worst.path)
    declared = {table.name for table in program.tables if table.key}
    tables = [table.name for table in program.tables if table.name not in declared]
    remedy = _REMEDY.get(worst.growth, "")
    if worst.growth == FIRST_ORDER and not tables:
        remedy = "`explain(analyze=True)` names the values that cost most."
    return _MEANING[worst.growth].format(path=path), remedy.format(tables=" or ".join(tables))


def to_json(program: Program) -> dict[str, Any]:
    """Returns verdict and costs in a JSON-able form."""
    stages = [{"kind": kind_name(type(stage)), **asdict(upkeep(stage))} for stage in program.stages]
    for stage in stages:
        del stage["growth"]
    return {"verdict": verdict(program), "stages": stages}
