"""``crown sql``: a shell over the database in a folder."""

from __future__ import annotations

import argparse
import sys
from cmd import Cmd
from collections.abc import Callable

import pyarrow as pa

from crown.errors import CrownError
from crown.guards.arguments import path_of
from crown.shell import printing
from crown.shell.grammar import FORMS
from crown.shell.session import Session
from plans.frontends.sql.text.statements import statements

HELP = "a shell over a database in a folder: create tables and views, change rows, read results"
REPORTS_PROGRESS = True
_DOTS = {
    ".help": "lists the statements",
    ".tables": "lists the tables and views with their columns",
    ".quit": "ends the session, as Ctrl-D does",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("folder", metavar="DIR", help="the folder of the database; the first CREATE TABLE creates it")
    parser.add_argument(
        "-c", "--command", action="append", metavar="SQL", help="run these statements and exit; can be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print rows as JSON lines")


def run(args: argparse.Namespace) -> int:
    """Runs statements from ``-c``, from a pipe, or from a terminal. Exit code 2 if one of them failed, else 0."""
    shell = Shell(Session(path_of(args.folder, "DIR"), _printer(args.json)))
    try:
        if args.command is not None:
            for text in args.command:
                shell.read(text)
                shell.end()
        elif sys.stdin is None or not sys.stdin.isatty():
            for line in sys.stdin or ():
                if not shell.read(line):
                    break
            shell.end()
        else:
            shell.talk()
    finally:
        shell.session.close()
    return 2 if shell.failed else 0


class Shell(Cmd):
    """Reads lines, and executes each statement when its semicolon has been read. After an error it continues with the
    next statement."""

    prompt, _more = "crown> ", "  ...> "
    intro = "Statements end with a semicolon. .help lists them, .quit or Ctrl-D ends the session."

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.failed = False
        self._begun = ""

    def talk(self) -> None:
        """Reads from a terminal until the user ends the session. Ctrl-C discards an incomplete statement."""
        print(self.intro)
        self.intro = ""
        while True:
            try:
                return self.cmdloop()
            except KeyboardInterrupt:
                self._begun = ""
                print()

    def onecmd(self, line: str) -> bool:
        """Processes a line. Returns True if it ends the session."""
        if line == "EOF":
            print()
            return True
        going = self.read(line + "\n")
        self.prompt = self._more if self._begun.strip() else Shell.prompt
        return not going

    def emptyline(self) -> bool:
        """Does nothing: an empty line does not repeat the last statement."""
        return False

    def read(self, text: str) -> bool:
        """Appends text, and executes the complete statements. Returns False if the session ends."""
        word = text.strip().rstrip(";").lower()
        if word.startswith(".") and not self._begun.strip():
            return self._dot(word)
        self._begun += text
        if text.rstrip().endswith(";") and self._is_complete():
            begun, self._begun = self._begun, ""
            for statement in statements(begun):
                self._run(statement.text)
        return True

    def end(self) -> None:
        """Executes the text after the last semicolon."""
        begun, self._begun = self._begun, ""
        try:
            for statement in statements(begun):
                self._run(statement.text)
        except CrownError as error:
            self._fail(error)

    def _is_complete(self) -> bool:
        """Returns False inside of a quote, where a semicolon does not end a statement."""
        try:
            statements(self._begun)
        except CrownError:
            return False
        return True

    def _run(self, text: str) -> None:
        try:
            self.session.run(text)
        except CrownError as error:
            self._fail(error)

    def _fail(self, error: CrownError) -> None:
        self.failed = True
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)

    def _dot(self, word: str) -> bool:
        if word == ".help":
            print("\n".join([*FORMS.values(), *(f"{name:<8} {does}" for name, does in _DOTS.items())]))
        elif word == ".tables":
            print("\n".join(self.session.tables()) or "there are no tables yet")
        elif word in (".quit", ".exit"):
            return False
        else:
            self._fail(CrownError(f"there is no {word}; there are {', '.join(_DOTS)}"))
        return True


def _printer(as_json: bool) -> Callable[[str, pa.Table | None], None]:
    """Returns a function that prints the output of a session."""

    def show(said: str, table: pa.Table | None) -> None:
        if table is None:
            if not as_json:
                print(said)
            return
        if said and not as_json:
            print(f"changes of {said}")
        for line in (printing.json_lines if as_json else printing.lines)(table):
            print(line)

    return show
