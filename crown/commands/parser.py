"""The parser of the command line. An error is one sentence that says what to do."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NoReturn

from typing_extensions import override

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Parses the arguments of a command. Options may precede, follow or separate the positional arguments."""

    @override
    def _match_arguments_partial(self, actions: Sequence[argparse.Action], arg_strings_pattern: str) -> list[int]:
        """Returns the number of words that each of the next arguments takes. An optional argument stays open while
        options follow ("O"), because its words may follow these options; argparse would reject them."""
        counts = super()._match_arguments_partial(actions, arg_strings_pattern)
        while "O" in arg_strings_pattern and counts and not counts[-1]:
            counts.pop()
        return counts

    def error(self, message: str) -> NoReturn:
        """Ends the process with code 2. Prints the error and a suggestion."""
        found = _CHOICE.search(message)
        names = [] if found is None else [name.strip("' ") for name in found[2].split(",")]
        hint = _suggestion([found[1]] if found else [], names) or f"{self.prog} --help lists the options"
        self.exit(2, f"{self.prog}: {message}\nhint: {hint}\n")

    def refuse(self, strange: list[str]) -> NoReturn:
        """Ends the process with code 2, because the command does not have these arguments."""
        options = [option for option in self._option_string_actions if option.startswith("--")]
        hint = _suggestion(strange, options) or f"{self.prog} --help lists the options"
        self.exit(2, f"{self.prog}: unrecognized arguments: {' '.join(strange)}\nhint: {hint}\n")


def _suggestion(words: Iterable[str], names: list[str]) -> str:
    """Returns "did you mean NAME?" for the first name that is close to one of the words; '' if none is."""
    close = [name for word in words for name in get_close_matches(word.partition("=")[0], names, 1)]
    return f"did you mean {close[0]}?" if close else ""
