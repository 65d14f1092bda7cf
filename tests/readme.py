"""Runs the snippets of a page and writes what they print: ``python -m tests.readme`` refreshes it; read the diff.

Python blocks run one after the other in one namespace, blocks of the shell as the ``crown`` command. What a block
prints is the ``text`` block behind it. Blocks that need Spark, `make`, `pip` or a download are for other tests, or for
none.
"""

from __future__ import annotations

import configparser
import contextlib
import importlib
import io
import os
import re
import shlex
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "durable.md", ROOT / "docs" / "upserts.md")
_BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
_ELSEWHERE = re.compile(r"crown\.spark|crown submit|crown bench|crown doctor|^make |^pip ", re.MULTILINE)


def refreshed(page: str) -> str:
    """The page with what its blocks print now; run in an empty folder."""
    names: dict[str, Any] = {"__name__": "page"}

    def block(match: re.Match[str]) -> str:
        kind, code, shown = match.groups()
        if _ELSEWHERE.search(code):
            return match[0]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            if kind == "python":
                exec(compile(code, "page", "exec"), names)
            else:
                for line in code.replace("\\\n", " ").splitlines():
                    _shell(line)
        told = out.getvalue()
        if shown is None and told:
            raise AssertionError(f"this block prints what the page does not show:\n{code}\n{told}")
        return f"```{kind}\n{code}```\n" + (f"\n```text\n{told}```\n" if shown is not None else "")

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return _BLOCK.sub(block, page)
        finally:
            os.chdir(before)


def ran(page: str) -> int:
    """How many blocks of a page run."""
    return sum(not _ELSEWHERE.search(match[2]) for match in _BLOCK.finditer(page))


def _shell(line: str) -> None:
    if not line.strip():
        return
    words = shlex.split(line, comments=True)
    if words[0] == "cd":
        os.chdir(words[1])
        return
    assert words[0] == "crown", f"a command of another program: {line}"
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    modules = dict(re.findall(r"(\w+) = ([\w.]+)", setup["options.entry_points"]["crown.commands"]))
    module, parser = importlib.import_module(modules[words[1]]), ArgumentParser()
    module.add_arguments(parser)
    assert module.run(parser.parse_args(words[2:])) == 0, line


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(refreshed(page.read_text()))
