"""What mkdocs asks while it builds: the changelog as a page, links to it, every page as Markdown beside its HTML."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_MADE = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
_OUTSIDE = re.compile(r"\]\(((?:\.\./)+)(CHANGELOG|CONTRIBUTING|README)\.md")
_INSIDE = re.compile(r"\]\(docs/")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie beside the folder of the documentation."""
    from mkdocs.structure.files import File

    for source, page in _MADE.items():
        if page != "index.md":
            text = _INSIDE.sub("](", (ROOT / source).read_text(encoding="utf-8"))
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Returns a page with its links to files beside the folder leading to their pages."""
    return _OUTSIDE.sub(lambda found: f"]({found[1][3:]}{_MADE[found[2] + '.md']}", markdown)


def on_post_build(config: Any) -> None:
    """Puts the Markdown of every page beside it, for readers who are programs."""
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    for page in docs.rglob("*.md"):
        target = site / page.relative_to(docs)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, target)
