"""Runs the code of a page and writes what it prints: ``python -m tests.pages.blocks`` refreshes all; read the diff.

``python -m tests.pages.blocks PAGE`` refreshes one page with its blocks for Spark.

A page runs from top to bottom in an empty folder and in one namespace. What a block prints is the ``text`` block
behind it. In a ``python`` block with ``>>>`` the answers stand in the block itself. Blocks of the shell are lines of
``crown``, ``python FILE`` and ``cd``; each block begins in the page's folder. A command may fail where what is shown
has a line ``crown: ...``, which is its error. A comment in front of a block says more:

- ``<!-- spark -->``: the block needs a session; ``tests/spark/job/test_documents.py`` runs the pages that have some.
- ``<!-- not run: reason -->``: the block needs what a test has not: a broker, a second host, minutes.
- ``<!-- setup``, lines of Python, ``-->``: runs, and is not shown: the files and tables that the page speaks of.
"""

from __future__ import annotations

import configparser
import contextlib
import doctest
import importlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crown.errors import CrownError

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_PART = re.compile(
    r"^(?:<!-- (?P<hidden>setup|setup for spark)\n(?P<lines>.*?)\n-->$"
    r"|(?:<!-- (?P<mark>spark|not run: [^\n]*) -->\n+)?```(?P<kind>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<shown>.*?)```\n)?)",
    re.DOTALL | re.MULTILINE,
)
_ELSEWHERE = re.compile(r"^(?:pip|make|git|python -m venv|\. ) ?", re.MULTILINE)
SPARK = "spark"
_FAILS = "\ncrown: "


def parts(page: str) -> Iterator[re.Match[str]]:
    """The blocks of a page that are code, and what sets it up."""
    return _PART.finditer(page)


def runs(match: re.Match[str], spark: bool = False) -> bool:
    """Whether a part of a page is run: in a test with a session, all that can be."""
    hidden, mark = match["hidden"], match["mark"] or ""
    if hidden or mark == SPARK:
        return spark or SPARK not in (hidden or mark)
    return not mark and not (match["kind"] == "sh" and _ELSEWHERE.search(match["code"]))


def on_spark(page: str) -> bool:
    """Whether a page has blocks that need a session."""
    return any(match["mark"] == SPARK for match in parts(page))


def refreshed(page: str, name: str = "page", *, spark: bool = False, names: dict[str, Any] | None = None) -> str:
    """The page with what its blocks print now; run in an empty folder, which is the current one if there are names."""
    given = {"__name__": "page", **(names or {})}

    def part(match: re.Match[str]) -> str:
        if not runs(match, spark):
            return match[0]
        if match["hidden"]:
            exec(compile(match["lines"], name, "exec", dont_inherit=True), given)
            return match[0]
        kind, code, shown = match["kind"], match["code"], match["shown"]
        if kind == "python" and code.startswith(">>> "):
            _doctest(code, given, name)
            return match[0]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            if kind == "python":
                exec(compile(code, name, "exec", dont_inherit=True), given)
            else:
                here = Path.cwd()
                for line in code.replace("\\\n", " ").splitlines():
                    _shell(line, fails=_FAILS in f"\n{shown or ''}")
                os.chdir(here)
        told = out.getvalue()
        if shown is None:
            if told and not match["mark"]:
                raise AssertionError(f"this block prints what {name} does not show:\n{code}\n{told}")
            return match[0]
        start, end = match.start("shown") - match.start(), match.end("shown") - match.start()
        return match[0][:start] + told + match[0][end:]

    if names is not None:
        return _PART.sub(part, page)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return _PART.sub(part, page)
        finally:
            os.chdir(before)


def _doctest(code: str, names: dict[str, Any], name: str) -> None:
    test = doctest.DocTestParser().get_doctest(code, names, name, name, 0)
    test.globs = names  # what one block defines, the next one knows
    wrong = io.StringIO()
    failed = doctest.DocTestRunner(verbose=False).run(test, out=wrong.write, clear_globs=False).failed
    assert not failed, wrong.getvalue()


def _shell(line: str, fails: bool = False) -> None:
    words = shlex.split(line, comments=True)
    if not words:
        return
    if words[0] == "cd":
        os.chdir(words[1])
    elif words[0] == "python":
        runpy.run_path(words[1], run_name="__main__")
    else:
        assert words[0] == "crown", f"a command of another program: {line}"
        module, parser = importlib.import_module(commands()[words[1]]), ArgumentParser()
        module.add_arguments(parser)
        try:
            assert module.run(parser.parse_args(words[2:])) == 0, line
        except CrownError as error:
            if not fails:
                raise
            print(f"crown: {error}".replace(f"{Path.cwd()}/", ""))  # as the command does, on standard error


def commands() -> dict[str, str]:
    """The subcommands of ``crown`` and the modules that they are."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    apart = tomllib.loads((ROOT / "bench" / "pyproject.toml").read_text())["project"]["entry-points"]
    ours = dict(re.findall(r"(\w+) = ([\w.]+)", setup["options.entry_points"]["crown.commands"]))
    return {**ours, **apart["crown.commands"]}


def _on_spark(page: Path) -> str:
    """The page with what all of its blocks print now, with a session in an empty folder."""
    from spark_jobs import local_session

    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return refreshed(text, page.name, spark=True, names={"spark": local_session("pages")})


if __name__ == "__main__":
    if sys.argv[1:]:  # one page, with Spark
        (chosen,) = (Path(given).resolve() for given in sys.argv[1:])
        chosen.write_text(_on_spark(chosen))
    else:
        for each in PAGES:
            each.write_text(refreshed(each.read_text(), each.name))
