"""docs/reference/commands.md: ``python -m tests.pages.commands`` writes it from the parsers of the commands."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from tests.pages import blocks

PAGE = blocks.ROOT / "docs" / "reference" / "commands.md"
HEAD = """\
# The command line

Written by `python -m tests.pages.commands` from the commands themselves. `crown COMMAND --help` says the same.

`python -m crown` is the same command, if `crown` is not on the path. A query is SQL, Datalog, a motif, a
plan as JSON, a file that holds one of these, or `-` for standard input.

| exit code | means |
|---|---|
| 0 | done |
| 1 | a check failed |
| 2 | a wrong argument, or an error of the system; the message is on standard error |
| 130 | interrupted |
| 141 | the reader of the output ended (`\\| head`) |
"""


def written() -> str:
    """The page as it ought to be."""
    return HEAD + "".join(f"\n{part}\n" for name, home in blocks.commands().items() for part in _command(name, home))


def _command(name: str, home: str) -> Iterator[str]:
    module = importlib.import_module(home)
    parser = argparse.ArgumentParser(prog=f"crown {name}")
    module.add_arguments(parser)
    yield f"## crown {name}\n\n{module.HELP[0].upper()}{module.HELP[1:]}."
    yield from _arguments(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help for choice in action._choices_actions}
            for inner, subparser in action.choices.items():
                text = said.get(inner) or ""
                yield f"### crown {name} {inner}\n\n{text[:1].upper()}{text[1:]}."
                yield from _arguments(subparser)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [
        f"| {_called(action)} | {_cell((action.help or '') % {'default': action.default})} |"
        for action in parser._actions
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]
    if rows:
        yield "\n".join(["| argument | |", "|---|---|", *rows])


def _called(action: argparse.Action) -> str:
    values = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    value = action.metavar if isinstance(action.metavar, str) else values or action.dest.upper()
    if not action.option_strings:
        return f"`{_cell(value if values or action.metavar else action.dest)}`"
    takes = "" if action.nargs == 0 else f" {value}"
    needed = ", required" if action.required else ""
    return ", ".join(f"`{_cell(option + takes)}`" for option in action.option_strings) + needed


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(written())
