"""The output formats of EXPLAIN by name. The mermaid flowchart shows the join tree of a plan, or the stages of a
program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plans.plan import BagAtom, Node, Plan
from plans.program import Program
from plans.programs.reads import sources
from plans.programs.stages import JoinStage
from plans.search.counted.classes import edges
from plans.show import explain, programs, upkeep
from plans.show.picture import flow, tree
from plans.show.picture.page import html

_CLASSES = (
    "  classDef free fill:#dbeafe,stroke:#1d4ed8,color:#0f172a",
    "  classDef bound fill:#f1f5f9,stroke:#94a3b8,color:#334155",
)
_RESULT = "  classDef result stroke:#1d4ed8,stroke-width:3px"
_SHAPES = {"input": ('["', '"]'), "virtual": ('(["', '"])'), "bag": ('[["', '"]]')}


def mermaid(program: Program) -> str:
    """Returns the tables, the stages, their inputs, and the tree of each join. For a plan, returns only the tree."""
    verdict = f'  verdict>"{_escaped(upkeep.verdict(program))}"]'
    if program.plan is not None:
        return "\n".join(["flowchart TD", verdict, *_tree(program.plan, "n"), *_CLASSES, ""])
    lines = ["flowchart TD", verdict]
    names = {table.name: f"t{index}" for index, table in enumerate(program.tables)}
    for table in program.tables:
        key = f"key ({', '.join(table.key)})" if table.key else "distinct" if table.distinct else ""
        upserts = programs.upserts(table).partition(";")[0].partition(" by ")[2] if table.upserts else ""
        windows = [f"window: {window}" for window in program.windows if window.relation == table.name]
        key += ", enforced" if table.enforced else ""
        taken = f"upserts by {upserts}" if upserts else ""
        lines.append(f'  {names[table.name]}["{_escaped(table.name, taken or key, *windows)}"]')
    drawn = False
    results: list[str] = []
    for number, stage in enumerate(program.stages):
        if programs.dropped(stage):
            continue
        cost, mark = upkeep.upkeep(stage), programs.result_mark(program, number)
        results += [f"s{number}"] if mark else []
        if isinstance(stage, JoinStage):
            drawn = True
            title = _escaped(f"{number}: {programs.kind(stage)}, {cost.name}{mark}", cost.update)
            lines += [f'  subgraph s{number}["{title}"]', *_tree(stage.plan, f"s{number}n"), "  end"]
        else:
            lines.append(f'  s{number}(["{_escaped(f"{number}: {programs.kind(stage)}{mark}", cost.update)}"])')
        lines += [f"  {names[s] if isinstance(s, str) else f's{s}'} --> s{number}" for s in sources(stage)]
    marked = [f"  class {','.join(results)} result", _RESULT] if results else []
    return "\n".join([*lines, *(_CLASSES if drawn else ()), *marked, ""])


def _tree(plan: Plan, prefix: str) -> list[str]:
    """Returns the nodes and edges of a join tree. `prefix` is put before the number of a node."""
    lines = []
    known = edges(plan)
    for index, node in enumerate(plan.nodes):
        opening, closing = _SHAPES[node.kind]
        lines.append(f"  {prefix}{index}{opening}{_escaped(*_label(plan, index))}{closing}")
    for index, node in enumerate(plan.nodes):
        if node.parent >= 0:
            mark = f"{'; ' if node.key else ''}{explain.edge_mark(known[index])}" if index in known else ""
            lines.append(f'  {prefix}{node.parent} ---|"{_escaped(", ".join(node.key) + mark)}"| {prefix}{index}')
    for free, name in ((True, "free"), (False, "bound")):
        members = ",".join(f"{prefix}{i}" for i, node in enumerate(plan.nodes) if node.free is free)
        if members:
            lines.append(f"  class {members} {name}")
    return lines


def _label(plan: Plan, index: int) -> list[str]:
    node = plan.nodes[index]
    if node.kind != "input":
        lines = [node.name]
        if node.bag is not None:
            lines.append(explain.bag_line(plan, node.bag))
            for atom in node.bag.atoms:
                named = atom.name if atom.name.endswith("]") else f"{atom.name}({', '.join(atom.attributes)})"
                lines += [named + _key(explain.key_columns(plan, atom)), *_where(atom)]
        return lines
    lines = [node.name, f"({', '.join(node.attributes)})", *_where(node)]
    if node.relation.lower() != node.name.lower():
        lines.insert(1, f"of {node.relation}")
    key = _key(explain.key_columns(plan, node)).strip()
    return [*lines, *([key] if key else []), *(["or NULLs"] if node.padded else [])]


def _key(columns: tuple[str, ...]) -> str:
    return f" key ({', '.join(columns)})" if columns else ""


def _where(atom: Node | BagAtom) -> list[str]:
    taken = explain.rows_taken(atom)
    return [] if taken is None else [f"where {taken}"]


def _escaped(*lines: str) -> str:
    """Returns the lines of a label as one escaped text."""
    marks = (('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"))
    made = []
    for line in lines:
        for mark, written in marks:
            line = line.replace(mark, written)
        made += [line] if line else []
    return "<br/>".join(made)


def svg(program: Program) -> str:
    """Returns the drawing of a join tree, or of the flow between several stages."""
    return flow.svg(program) if program.plan is None else tree.svg(program.plan)


FORMS: Mapping[str, Callable[..., str]] = {
    "text": programs.text,
    "json": programs.explained,
    "mermaid": lambda program, *_: mermaid(program),
    "html": lambda program, wires, *_: html(program, wires),
    "svg": lambda program, *_: svg(program),
}
"""Each function takes the program and the wires of the engine that maintains it, and optionally an `IsNative`, which
tells what the engine evaluates itself, and how the engine runs each part of the stages. Drawings ignore the last
three."""
