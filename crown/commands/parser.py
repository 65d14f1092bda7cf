"""The parser of the command line: a mistake is one sentence with what to do, and no list of all options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Reads the arguments of a command."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with code 2, the mistake, and what was meant, or else where the options are listed."""
        found = _CHOICE.search(message)
        names = [] if found is None else [name.strip("' ") for name in found[2].split(",")]
        hint = _meant([found[1]] if found else [], names) or f"{self.prog} --help lists what it takes"
        self.exit(2, f"{self.prog}: {message}\nhint: {hint}\n")

    def refuse(self, strange: list[str]) -> NoReturn:
        """Ends the process with code 2, because of arguments that the command has not."""
        options = [option for option in self._option_string_actions if option.startswith("--")]
        hint = _meant(strange, options) or f"{self.prog} --help lists what it takes"
        self.exit(2, f"{self.prog}: unrecognized arguments: {' '.join(strange)}\nhint: {hint}\n")


def _meant(words: Iterable[str], names: list[str]) -> str:
    """Returns "did you mean NAME?" for the first name that is close to one of the words; '' if none is."""
    close = [name for word in words for name in get_close_matches(word.partition("=")[0], names, 1)]
    return f"did you mean {close[0]}?" if close else ""
