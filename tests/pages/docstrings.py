"""An extension of griffe: the examples of docstrings (``>>>``) become blocks of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?|^\.\.\. .*\n?)*)+", re.MULTILINE)


class Examples(Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Changes the docstring of an object in place."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            fenced = _EXAMPLE.sub(lambda found: f"```python\n{found[0].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = fenced
