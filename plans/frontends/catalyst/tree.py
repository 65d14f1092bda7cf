"""The nodes of a logical plan and of its expressions, as `TreeNode.toJSON` of Spark writes them.

Spark writes a tree as the list of its nodes in preorder, each with the number of its children. Fields that contain
expressions are such lists, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of a plan or of an expression: its class without the package, its fields and its children."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    @property
    def child(self) -> Node:
        """Returns the first child."""
        return self.children[0]

    @property
    def id(self) -> int:
        """Returns the number that identifies a column in Spark."""
        return int(self.fields["exprId"]["id"])

    def tree(self, name: str) -> Node | None:
        """Returns the tree in a field, or None if the field is empty."""
        given = self.fields.get(name)
        return read(given) if given else None

    def trees(self, name: str) -> tuple[Node, ...]:
        """Returns the trees in a field that contains several."""
        return tuple(read(given) for given in self.fields.get(name) or ())

    def word(self, name: str) -> str:
        """Returns the class, without the package, of an object in a field."""
        given = self.fields.get(name)
        return _short(given["object"]) if isinstance(given, Mapping) and "object" in given else ""

    def conjuncts(self) -> list[Node]:
        """Returns the operands of a conjunction, or the node itself if it is not a conjunction."""
        return [part for child in self.children for part in child.conjuncts()] if self.kind == "And" else [self]

    def walk(self) -> Iterator[Node]:
        """Yields the node and its subtree, parents first."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo += reversed(node.children)


def read(nodes: Sequence[Mapping[str, Any]]) -> Node:
    """Returns the tree of a list of nodes in preorder. O(nodes). Raises PlanError if it is not a tree."""
    made: list[Node] = []
    for data in reversed(nodes):
        count = int(data["num-children"])
        if count > len(made):
            raise PlanError("this is not a logical plan of Spark: a node has too few children")
        children = tuple(made[len(made) - count :][::-1])
        del made[len(made) - count :]
        made.append(Node(_short(data["class"]), data, children))
    if len(made) != 1:
        raise PlanError("this is not a logical plan of Spark: it has several roots")
    return made[0]


def tables_of(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns the name and qualified name of every table and temporary view that a plan reads, including subqueries.

    Both are empty for a leaf without a name. The qualified name of a temporary view is empty.
    """
    found: list[tuple[str, str]] = []
    todo = [read(nodes)]
    while todo:
        node = todo.pop()
        if node.kind == "View" and node.fields.get("isTempView") and node.child.kind == "LogicalRDD":
            found.append((str(node.fields["desc"]["identifier"]["table"]), ""))
            continue
        if is_table(node):
            found.append((str(node.fields["identifier"]["name"]), qualified(node)))
            continue
        if (
            not node.children
            and "output" in node.fields
            and node.kind not in ("LocalRelation", "Range", "CTERelationRef", "UnionLoopRef")
        ):
            found.append(("", ""))
        todo += reversed(node.children)
        todo += _subqueries(node.fields)
    return list(dict.fromkeys(found))


def views_of(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Returns True if a plan reads a view of the catalog, whose text is not part of the query."""
    todo = [read(nodes)]
    while todo:
        node = todo.pop()
        if node.kind == "View" and not node.fields.get("isTempView"):
            return True
        todo += [*node.children, *_subqueries(node.fields)]
    return False


def is_table(node: Node) -> bool:
    """Returns True for the name of a table of the catalog, directly above its leaf. An alias in a query has no
    qualifier."""
    return node.kind == "SubqueryAlias" and not node.child.children and bool(_qualifier(node))


def qualified(node: Node) -> str:
    """Returns the qualified name of a table of the catalog."""
    return ".".join(f"`{part}`" for part in [*_qualifier(node), node.fields["identifier"]["name"]] if part)


def _qualifier(node: Node) -> list[str]:
    given = node.fields["identifier"].get("qualifier") or []
    return given.strip("[]").split(", ") if isinstance(given, str) else list(given)


def _subqueries(value: Any) -> list[Node]:
    """Returns the plans of the subqueries in the fields of a node."""
    found: list[Node] = []
    todo = [value]
    while todo:
        here = todo.pop()
        if isinstance(here, Mapping):
            if str(here.get("class", "")).endswith(("Subquery", "Exists", "ListQuery")) and here.get("plan"):
                found.append(read(here["plan"]))
            todo += [inner for name, inner in here.items() if name != "plan"]
        elif isinstance(here, list):
            todo += here
    return found


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1].rstrip("$")
