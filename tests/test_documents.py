"""The documents are true where a machine can tell: names, files, links, targets of make, tables of files."""

from __future__ import annotations

import configparser
import pydoc
import re
from pathlib import Path

import pytest

from tests import architecture

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *PAGES]
ENTRY_POINTS = {"crown.bags", "crown.commands"}


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_a_name_is_found_only_where_it_is_defined() -> None:
    assert architecture.exists("crown.programs.program.ProgramEngine.run")
    assert architecture.exists("crown.kernels.memory.arena.H_P_UPDATES")
    assert architecture.exists("crown.kernels")
    assert not architecture.exists("crown.programs.program.ProgramEngine.walk")
    assert not architecture.exists("crown.programs.program.run")
    assert not architecture.exists("crown.programs.Engine")


@pytest.mark.parametrize("file", [architecture.PAGE, ROOT / "CONTRIBUTING.md"], ids=name)
def test_every_function_and_file_that_a_page_names_exists(file: Path) -> None:
    page = file.read_text()
    assert len(architecture.names(page) | architecture.paths(page)) > 5, "the page names functions or files"
    assert not [found for found in sorted(architecture.names(page)) if not architecture.exists(found)]
    assert not [path for path in sorted(architecture.paths(page)) if not (ROOT / path).is_file()]


def test_every_file_and_module_that_is_named_anywhere_exists() -> None:
    """In pages, docstrings and comments: `plans/search/cells/cuts.py`, or ``plans.search.cells.cuts`` and its names."""
    modules = [file for package in architecture.PACKAGES for file in (ROOT / package).rglob("*.py")]
    wrong = []
    for file in [*PAGES, ROOT / "README.md", *modules]:
        text = file.read_text()
        wrong += [(name(file), path) for path in architecture.paths_of_packages(text) if not (ROOT / path).is_file()]
        of_modules = [found for found in architecture.names(text) if architecture.is_in_a_module(found)]
        wrong += [(name(file), one) for one in of_modules if not (architecture.exists(one) or pydoc.locate(one))]
    assert not wrong


def test_the_tables_of_files_are_those_of_the_files() -> None:
    page = architecture.PAGE.read_text()
    assert architecture.written(page) == page, "python -m tests.architecture writes them; read the diff"


def test_every_file_of_a_package_says_what_it_is_in_a_line() -> None:
    rows = [line for line in architecture.tables().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert not [row for row in rows if row.endswith("|  |")]


@pytest.mark.parametrize("file", DOCUMENTS, ids=name)
def test_links_lead_to_files_and_headings(file: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", file.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, heading = target.partition("#")
        linked = (file.parent / path) if path else file
        assert linked.exists(), f"{target} is not there"
        if heading:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


def test_entry_points_that_the_setup_names_exist() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    groups = parser["options.entry_points"]
    assert set(groups) >= ENTRY_POINTS
    for group in groups:
        for line in groups[group].strip().splitlines():
            module = line.split("=")[1].strip().replace(":", ".")
            assert architecture.exists(module), f"{group}: {line}"


def test_the_targets_that_the_documents_name_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for file in DOCUMENTS:
        named = set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", file.read_text(), re.MULTILINE))
        assert named <= targets, f"{name(file)} names targets that are not there: {named - targets}"
