"""The table of contents in mkdocs.yml, and docs/llms.txt, which ``python -m tests.pages.nav`` writes from it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.pages import blocks

SETTINGS = blocks.ROOT / "mkdocs.yml"
DOCS = blocks.ROOT / "docs"
PAGE = DOCS / "llms.txt"
HEAD = """\
# crown

> Keeps the result of a query (SQL, Datalog, a graph motif) up to date while its tables change: every batch of inserted
> and deleted rows gives the exact change of the result. Embedded in Python, or as an operator of Spark Structured
> Streaming. Change propagation without joins (CROWN, PVLDB 16(5), 2023): the state of a join is linear in the
> tables, however large the result is.

`pip install crown-ivm`, then `import crown`. The pages below are Markdown; with `.html` in the place of `.md` they are
pages of the site.
"""
_ENTRY = re.compile(r"^  ( *)- (?:([^:\n]+): *)?(\S+\.md)?$")
MADE = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that are files elsewhere."""


def entries() -> Iterator[tuple[str | None, str | None]]:
    """Title and page of every entry of the table of contents; a section has no page."""
    lines = SETTINGS.read_text().split("\nnav:\n")[1].splitlines()
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        found = _ENTRY.match(line)
        if found is None:
            return
        yield found[2], found[3]


def pages() -> list[str]:
    """The pages that the table of contents leads to."""
    return [page for _, page in entries() if page]


def written() -> str:
    """The file for language models as it ought to be."""
    out = [HEAD]
    for title, page in entries():
        if page is None:
            out.append(f"\n## {title}\n\n")
        else:
            heading, first = _beginning(page)
            out.append(f"- [{title or heading}]({page}): {first}\n")
    return "".join(out)


def _beginning(page: str) -> tuple[str, str]:
    """The heading of a page, and its first sentence."""
    text = (DOCS / page if page not in MADE else blocks.ROOT / MADE[page]).read_text()
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    heading, _, rest = text.strip().partition("\n")
    parts = [part.lstrip() for part in rest.split("\n\n")]
    prose = [part for part in parts if re.match(r"[A-Z*\[`]", part) and not part.startswith("```")]
    sentence = re.split(r"(?<=[.]) (?=[A-Z`*])", " ".join(prose[0].split()))[0] if prose else heading
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", sentence).replace("**", "")
    return heading.lstrip("# "), plain


if __name__ == "__main__":
    PAGE.write_text(written())
