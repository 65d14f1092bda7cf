"""docs/architecture.md: its tables of files, which `python -m tests.architecture` writes, and the names on the page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs", "bench", "tests/models")
_FILES = re.compile(r"(?<=<!-- files -->\n).*(?=<!-- end of files -->)", re.DOTALL)
_NAME = re.compile(rf"`((?:{'|'.join(PACKAGES).replace('/', '.')})(?:\.\w+)+)`")


@cache
def first_sentence(file: Path) -> str:
    """What the file says that it is."""
    top, _, _ = file.read_text().partition("\nfrom __future__")  # the rest need not be read
    text = ast.get_docstring(ast.parse(top)) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.]) (?=[A-Z`])", paragraph)[0].rstrip(".:")
    return sentence.replace("``", "`").replace("|", "\\|")


def tables() -> str:
    """One table per folder, the files in it in order, its own sentence on top."""
    parts = []
    for package in PACKAGES:
        for folder in sorted({file.parent for file in (ROOT / package).rglob("*.py")}):
            files = [file for file in sorted(folder.glob("*.py")) if file.stem != "__init__"]
            parts += [f"\n### {folder.relative_to(ROOT)}\n", f"{first_sentence(folder / '__init__.py')}.\n"]
            parts += ["| file | |", "|---|---|"]
            parts += [f"| `{file.name}` | {first_sentence(file)} |" for file in files]
    return "\n".join(parts).lstrip("\n") + "\n"


def written(page: str) -> str:
    """The page with the tables as they ought to be."""
    return _FILES.sub(lambda _: tables(), page)


def names(page: str) -> set[str]:
    """Every dotted name of this project in backticks, outside the tables of files."""
    return set(_NAME.findall(_FILES.sub("", page)))


def paths(page: str) -> set[str]:
    """Every path of a Python file in backticks, without patterns."""
    return set(re.findall(r"`([\w/]+\.py)`", _FILES.sub("", page)))


def paths_of_packages(text: str) -> set[str]:
    """Every path of a Python file of a package in backticks."""
    return set(re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:/\w+)+\.py)`", text))


def is_in_a_module(name: str) -> bool:
    """Whether the dotted name begins with a module or folder within a package; others name metadata and metrics."""
    path = ROOT.joinpath(*name.split(".")[:2])
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def exists(name: str) -> bool:
    """Whether the dotted name is a module of this project, or something that one defines."""
    words = name.split(".")
    for n in range(len(words), 0, -1):
        path = ROOT.joinpath(*words[:n])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.is_file():
            return _defined(ast.parse(file.read_text()).body, words[n:])
    return False


def _defined(body: list[ast.stmt], words: list[str]) -> bool:
    if not words:
        return True
    for node in body:
        if words[0] in _names_of(node):
            return _defined(node.body if isinstance(node, ast.ClassDef) else [], words[1:])
    return False


def _names_of(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part in ast.walk(target):
                if isinstance(part, ast.Name):
                    yield part.id


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
