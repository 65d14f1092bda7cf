"""docs/operations.md: every sentence that a job can end in, which `python -m tests.spark.operations` writes."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

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
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names and node.args:
                sentence = template(node.args[0])
                if sentence is not None:
                    found[node.func.id].append((sentence, place))
    for node in ast.walk(ast.parse((ROOT / "spark_jobs" / "job" / "failures.py").read_text())):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_KNOWN":
            assert isinstance(node.value, ast.List)
            for pair in node.value.elts:
                assert isinstance(pair, ast.Tuple)
                sentence = re.sub(r"\{\d\}", "…", str(ast.literal_eval(pair.elts[1])))
                found[SPARK].append((sentence, "spark_jobs/job/failures.py"))
    return found


def template(node: ast.expr) -> str | None:
    """The text of a message; None if it is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
    text = re.sub(r"…(?:\s?…)+", "…", "".join(parts))
    return text if re.search(r"[a-z]{3}", text) else None


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
