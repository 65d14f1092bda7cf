"""An extension of griffe: examples in docstrings (``>>>``) become blocks of code, arguments a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?|^\.\.\. .*\n?)*)+", re.MULTILINE)


_ARGUMENT = re.compile(r"^(?=``\w+``[^:\n]{0,40}: )", re.MULTILINE)


def _listed(paragraph: str) -> str:
    """A paragraph as a list, if several of its lines begin with the name of an argument."""
    return _ARGUMENT.sub("\n- ", paragraph) if len(_ARGUMENT.findall(paragraph)) > 1 else paragraph


class Readable(Extension):
    """Puts a fence around every example, and a dot before every argument of several."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Changes the docstring of an object in place."""
        if obj.docstring is not None:
            fenced = _EXAMPLE.sub(lambda found: f"```python\n{found[0].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = "\n\n".join(map(_listed, fenced.split("\n\n")))
