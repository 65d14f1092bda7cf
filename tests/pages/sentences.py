"""The sentences of a page: what stands in its paragraphs, lists and tables, without code."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WITHOUT = re.compile(
    r"<!-- (?!spark|setup|not run)\w+ -->.*?<!-- end[\w ]* -->"  # what a command writes from the sources
    r"|<!--.*?-->|^( *)(`{3,}).*?^\1\2`*\n",
    re.DOTALL | re.MULTILINE,
)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |#|\|))")
_QUOTED = re.compile(r"^(?:> ?)+", re.MULTILINE)
_BULLET = re.compile(r"^(?:[-*] |\d+\. )")
_END = re.compile(r"(?<=[.!?:;])(?<!e\.g\.) (?=[A-Z`*\[(\"])")


def sentences(page: str) -> Iterator[str]:
    """Yields the sentences of a page, each on one line. Rows of tables are sentences, headings are none."""
    for block in _BLOCK.split(_QUOTED.sub("", _WITHOUT.sub("\n\n", page))):
        text = _BULLET.sub("", " ".join(block.split()))
        if text and not text.startswith(("#", ":::")):
            yield from [text] if text.startswith("|") else _END.split(text)
