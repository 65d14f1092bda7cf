"""The site is complete: what is generated is current, every page is in the contents, every public name has a place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import crown
from tests.pages import built, commands, nav, pictures

DEVELOPERS = {"performance.md"}
"""Notes for developers: they are on the site, and not in its table of contents."""


def test_the_page_of_the_command_line_is_that_of_the_commands() -> None:
    assert commands.written() == commands.PAGE.read_text(), "python -m tests.pages.commands writes it; read the diff"


def test_the_file_for_language_models_is_that_of_the_pages() -> None:
    assert nav.written() == nav.PAGE.read_text(), "python -m tests.pages.nav writes it; read the diff"


def test_every_page_is_in_the_table_of_contents_once() -> None:
    there = {str(page.relative_to(nav.DOCS)) for page in nav.DOCS.rglob("*.md")}
    listed = nav.pages()
    assert len(listed) == len(set(listed))
    assert set(listed) - set(nav.MADE) == there - DEVELOPERS


def test_every_picture_is_drawn_as_it_is_told_and_shown_somewhere() -> None:
    drawn = pictures.drawn()
    assert {picture.stem for picture in pictures.FOLDER.iterdir()} == set(drawn)
    text = "".join(page.read_text() for page in nav.DOCS.rglob("*.md"))
    for name, picture in drawn.items():
        assert (pictures.FOLDER / f"{name}.svg").read_text() == picture, "python -m tests.pages.pictures draws them"
        assert f"pictures/{name}.svg)" in text, name


def test_types_and_placeholders_in_angle_brackets_are_code_and_not_tags() -> None:
    code = re.compile(
        r"^```.*?^```|<!--.*?-->|(`+).+?\1|<(summary|details)\b.*?>|</(summary|details)>", re.DOTALL | re.MULTILINE
    )
    found = {
        f"{page.relative_to(nav.DOCS)}: {tag}"
        for page in nav.DOCS.rglob("*.md")
        for tag in re.findall(r"<[A-Za-z/][^>\n]*>", code.sub("", page.read_text()))
    }
    assert not found, "a browser does not show them: write them in backticks"


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    text = "".join(page.read_text() for page in (nav.DOCS / "reference").glob("*.md"))
    described = set(re.findall(r"heading: crown\.(\w+)$", text, re.MULTILINE)) | set(re.findall(r"\b\w+Error\b", text))
    described |= {"AmplifiedWarning", "DataWarning", "RecoveryWarning", *re.findall(r"`crown\.(\w+)`", text)}
    assert set(crown.__all__) - described == set()


def test_folders_of_pages_are_small() -> None:
    for folder in {page.parent for page in nav.DOCS.rglob("*.md")} - {nav.DOCS}:
        assert len(list(folder.iterdir())) <= 12, folder


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', "//fonts.example/a.css"),
        ("<style>@import url(https://fonts.example/b.css)</style>", "https://fonts.example/b.css"),
        ('<img src="pictures/none.svg">', "pictures/none.svg"),
        ('<a href="none.html">x</a>', "none.html"),
    ],
)
def test_what_is_loaded_from_elsewhere_or_leads_nowhere_is_found(tmp_path: Path, page: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(page)
    assert built.faults(tmp_path) == [f"index.html: {fault}"]


def test_links_and_files_of_the_site_are_no_faults(tmp_path: Path) -> None:
    (tmp_path / "a b.html").write_text("")
    (tmp_path / "index.html").write_text(
        '<a href="a%20b.html#x">x</a> <a href="https://arxiv.org/abs/2301.04003">paper</a> <a href="#top">top</a>'
        '<img src="data:image/png;base64,AA=="> <link rel="canonical" href="https://example.org/">'
    )
    assert built.faults(tmp_path) == []
