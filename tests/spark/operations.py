"""docs/operations.md: every sentence that a job can end in, which `python -m tests.spark.operations` writes."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.job import failures

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
ERRORS = ROOT / "spark_jobs" / "errors.py"
_BLOCK = re.compile(r"(<!-- ([A-Z]\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
SPARK = "Spark"


def classes() -> list[str]:
    """The error classes of the Spark side, as they are defined."""
    return [node.name for node in ast.parse(ERRORS.read_text()).body if isinstance(node, ast.ClassDef)]


def messages() -> dict[str, list[tuple[str, str]]]:
    """Class -> (sentence with … for what depends, file), in the order of files. Spark's reports are a class."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    names = set(classes())
    for file in sorted((ROOT / "spark_jobs").rglob("*.py")):
        place = str(file.relative_to(ROOT))
        known = vars(importlib.import_module(place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names and node.args:
                sentence = template(node.args[0], known)
                if sentence is not None:
                    found[node.func.id].append((sentence, place))
    for _, sentence in failures._KNOWN:
        found[SPARK].append((re.sub(r"\{\d\}", "…", sentence), "spark_jobs/job/failures.py"))
    return found


def template(node: ast.expr, known: Mapping[str, object]) -> str | None:
    """The text of a message, with the texts among the names that its module knows; None if it is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = [str(part.value) if isinstance(part, ast.Constant) else _constant(part, known) for part in node.values]
    text = re.sub(r"…(?:\s?…)+", "…", "".join(parts))
    return text if re.search(r"[a-z]{3}", text) else None


def _constant(part: ast.expr, known: Mapping[str, object]) -> str:
    """The text that a constant of the module puts into a message; … for any other value."""
    name = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
    return str(known[name]) if name.isupper() and isinstance(known.get(name), str) else "…"


def table(rows: list[tuple[str, str]]) -> str:
    """The rows as Markdown, each once."""
    lines = [
        f"| {text.replace('|', '&#124;').replace('<', '&lt;')} | `{place}` |" for text, place in dict.fromkeys(rows)
    ]
    return "\n".join(["| message | source file |", "|---|---|", *lines]) + "\n"


def filled(page: str) -> str:
    """The page with the sentences as they are."""
    known = messages()
    return _BLOCK.sub(lambda block: block[1] + "\n" + table(known.get(block[2], [])) + "\n" + block[3], page)


def sections(page: str) -> list[str]:
    """The classes that the page has a table for."""
    return [block[2] for block in _BLOCK.finditer(page)]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
