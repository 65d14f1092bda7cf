"""``python -m tests.pages.built FOLDER`` looks at the built site: nothing from elsewhere, no file that is not there."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href", "object": "data"}
_NOT_LOADED = {"canonical", "prev", "next", "alternate"}
_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class _Page(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._style = tag == "style"
        for name, value in attrs:
            if value and tag == "a" and name == "href":
                self.linked.append(value)
            elif value and _LOADED.get(tag) == name and given.get("rel") not in _NOT_LOADED:
                self.loaded.append(value)

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loaded += [found[0] or found[1] for found in _STYLE.findall(data)]
            self._style = False


def faults(site: Path) -> list[str]:
    """What pages and styles load from elsewhere, and files that they name and that are not there."""
    found = []
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        page = _Page()
        if file.suffix == ".css":
            page.loaded = [named[0] or named[1] for named in _STYLE.findall(file.read_text(encoding="utf-8"))]
        else:
            page.feed(file.read_text(encoding="utf-8"))
        wrong = [url for url in page.loaded if _elsewhere(url) or not _there(site, file, url)]
        wrong += [url for url in page.linked if not _elsewhere(url) and not _there(site, file, url)]
        found += [f"{file.relative_to(site)}: {url}" for url in dict.fromkeys(wrong)]
    return found


def _elsewhere(url: str) -> bool:
    return bool(urlsplit(url).netloc) or urlsplit(url).scheme in ("http", "https")


def _there(site: Path, file: Path, url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme or not parts.path:  # data:, mailto:, a place in the page itself
        return True
    start = site if parts.path.startswith("/") else file.parent
    return (start / unquote(parts.path).lstrip("/")).exists()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pages = len(list(folder.rglob("*.html")))
    wrong = faults(folder)
    print("\n".join(wrong) or f"{pages} pages: nothing is loaded from elsewhere, every link leads somewhere")
    sys.exit(bool(wrong) or not pages)
