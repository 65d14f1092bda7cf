"""House rules that a machine can check: size of files, docstrings, no traces of one machine, no unfinished business."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests import syntax

ROOT = Path(__file__).parent.parent
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs", "bench")
LIMIT, CEILING, MEDIAN = 450, 800, 200


def tracked() -> list[Path]:
    """The files under version control; outside of it (an unpacked archive) those of the packages and the tests."""
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [file for folder in (*PACKAGES, "tests") for file in (ROOT / folder).rglob("*.py")]


def links() -> list[Path]:
    """The links under version control: what they lead to need not be here."""
    done = subprocess.run(["git", "ls-files", "-s", "-z"], capture_output=True, text=True, cwd=ROOT, check=False)
    return [ROOT / entry.split("\t")[1] for entry in done.stdout.split("\0") if entry.startswith("120000")]


TRACKED, LINKS = tracked(), links()
SOURCES = [file for file in TRACKED if file.suffix == ".py" and file.relative_to(ROOT).parts[0] in PACKAGES]


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def length(file: Path) -> int:
    return len(file.read_text().splitlines())


@cache
def docstrings(file: Path) -> tuple[list[str], dict[str, str]]:
    """Public names without a docstring, and first lines that do not say what a function does, by function.

    Both are found in one reading of the file. Trees of syntax are not kept: they have a thousand objects a file.
    """
    tree = ast.parse(file.read_text())
    return _silent(tree), _others(tree)


def wrong(files: list[Path], found: Callable[[Path], Any]) -> dict[str, Any]:
    """What is found in the files in which anything is found: one test for all files, since a test each takes longer."""
    every = {name(file): found(file) for file in files}
    assert every
    return {file: what for file, what in every.items() if what}


def test_no_file_of_a_package_wants_splitting() -> None:
    assert {name(file): length(file) for file in SOURCES if length(file) > LIMIT} == {}


def test_a_sentence_says_who_does_it() -> None:
    words = re.compile(r"\b(nobody|somebody|anybody|whoever)\b", re.IGNORECASE)
    sources = [file for file in SOURCES if file.relative_to(ROOT).parts[0] != "bench"]
    assert wrong(sources, lambda file: words.findall(file.read_text())) == {}, (
        "name the part, the reader or the process"
    )


def test_no_python_file_at_all_is_very_long() -> None:
    assert {name(file): length(file) for file in TRACKED if file.suffix == ".py" and length(file) > CEILING} == {}


def test_the_median_file_fits_three_screens() -> None:
    lengths = sorted(length(file) for file in SOURCES if length(file) > 20)
    assert lengths[len(lengths) // 2] <= MEDIAN


def test_public_names_say_what_they_are() -> None:
    assert wrong(SOURCES, lambda file: docstrings(file)[0]) == {}, "these have no docstring"


def _silent(tree: ast.Module) -> list[str]:
    silent = [] if ast.get_docstring(tree) or not tree.body else ["the module"]
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            if not ast.get_docstring(node) and not _declares(node):
                silent.append(node.name)
            if isinstance(node, ast.ClassDef):
                silent += [
                    f"{node.name}.{method.name}"
                    for method in node.body
                    if isinstance(method, ast.FunctionDef)
                    and not method.name.startswith("_")
                    and not ast.get_docstring(method)
                    and not _overrides(method)
                ]
    return silent


def _declares(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a function is one of the types that another one, which says what it does, can have."""
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


def _overrides(method: ast.FunctionDef) -> bool:
    return any(
        ast.unparse(decorator).endswith((".setter", "overload", "override")) for decorator in method.decorator_list
    )


_BEGINNING = re.compile(r"(?:[A-Z][a-z]+s|See)\b")


def test_what_is_said_of_a_function_begins_with_what_it_does() -> None:
    """It returns, yields, writes, raises: the first word says so."""
    assert wrong(SOURCES, lambda file: docstrings(file)[1]) == {}, "these begin with a verb in the third person"


def _others(tree: ast.Module) -> dict[str, str]:
    functions = (node for node in syntax.statements(tree) if isinstance(node, ast.FunctionDef))
    said = {node.name: ast.get_docstring(node) or "" for node in functions}
    return {name: text.split("\n")[0] for name, text in said.items() if text and not _BEGINNING.match(text)}


MACHINE = re.compile(r"(?<![\w.])/(?:work|home|root|Users|tmp)/[\w.]+|[A-Z]:\\\\Users")
TEXT = {".py", ".md", ".cfg", ".toml", ".txt", ".json", ".yml", ".yaml", ".html", ".sh", ""}


def test_nothing_points_to_one_machine() -> None:
    texts = [file for file in TRACKED if file.suffix in TEXT and file != Path(__file__)]
    assert wrong(texts, lambda file: MACHINE.findall(file.read_text(errors="replace"))) == {}


def test_no_link_is_under_version_control() -> None:
    """A link leads to a place of one machine."""
    assert not [name(file) for file in LINKS]


UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")


def test_nothing_is_left_for_later() -> None:
    assert wrong(SOURCES, lambda file: UNFINISHED.findall(file.read_text())) == {}


def test_every_marker_is_declared() -> None:
    declared = set(re.findall(r"^    (\w+):", (ROOT / "setup.cfg").read_text().split("markers =")[1], re.MULTILINE))
    built_in = {"parametrize", "skip", "skipif", "xfail", "filterwarnings", "usefixtures"}
    for file in TRACKED:
        if file.suffix == ".py" and file.relative_to(ROOT).parts[0] == "tests":
            used = set(re.findall(r"pytest\.mark\.(\w+)", file.read_text()))
            assert used <= declared | built_in, f"{name(file)} uses undeclared markers {used - declared - built_in}"
