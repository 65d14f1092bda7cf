"""The ``crown`` command. Subcommands are entry points of the group ``crown.commands``: modules with ``HELP``,
``add_arguments(parser)`` and ``run(args) -> exit code``. So this module knows no command. If ``REPORTS_PROGRESS`` of
a module is True, the command shows its progress itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

_APART = {"bench"}
"""Commands of other packages. Each is installed with the extra of the same name."""
PIPE_CLOSED = 141  # 128 + SIGPIPE, as a shell reports it


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand.

    Slow imports are in this function, so that Ctrl-C during an import prints no traceback.

    Exit codes: 0 success, 1 a check failed, 2 an error of the user or of the system (reported in one sentence),
    130 interrupted, 141 the output was closed (``| head``) before the command had finished.
    """
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return 130


def _main(argv: Sequence[str] | None) -> int:
    import gc
    import warnings
    from contextlib import nullcontext

    if argv is None:
        gc.disable()  # imported objects are never garbage; searching them takes a tenth of a short command's time
    from crown import __version__
    from crown.commands.parser import Parser
    from crown.commands.terminal import fit, waiting
    from crown.errors import CrownError, DataWarning, MissingPackageError, QueryWarning, needs

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any) -> None:
        """Shows a warning about the query or the data without a line of code, and other warnings in Python's format."""
        if issubclass(category, (QueryWarning, DataWarning)):
            print(f"crown: warning: {message}", file=sys.stderr)
        else:
            sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell has closed it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    fit(sys.stdout, sys.stderr)
    parser = Parser(prog="crown", description="Keep the result of a multi-way join up to date while its tables change.")
    parser.add_argument("--version", action="version", version=f"crown {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((a for a in (sys.argv[1:] if argv is None else argv) if not a.startswith("-")), None)
    try:
        _add_commands(subparsers, chosen)
    except MissingPackageError as error:
        print(f"crown: {error}", file=sys.stderr)
        return 2
    if argv is None:
        gc.freeze()
        gc.enable()
    args, strange = parser.parse_known_args(argv)
    if strange:  # the parser of the command knows its options
        subparsers.choices[args.command].refuse(strange)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", QueryWarning)
            warnings.showwarning = show  # type: ignore[assignment]
            name = f"crown {args.command}"
            with needs(name), nullcontext() if args.reports_progress else waiting(name):
                code = int(args.run(args))
        sys.stdout.flush()
        return code
    except CrownError as error:
        print(f"crown: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):  # discard buffered output, so that Python reports no error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return PIPE_CLOSED
    except OSError as error:
        print(f"crown: the system reported an error: {error}", file=sys.stderr)
        return 2


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Returns the parsers of all commands whose packages are installed, by name."""
    import argparse

    found = argparse.ArgumentParser(prog="crown").add_subparsers()
    _add_commands(found, None)
    return {name: parser for name, parser in found.choices.items() if parser.get_default("run") is not None}


def _add_commands(subparsers: Any, chosen: str | None) -> None:
    """Adds the commands to a parser. Imports only the chosen command, or all commands if it does not exist.

    Raises MissingPackageError if the chosen command needs a package that is not installed.
    """
    from importlib.metadata import entry_points

    from crown.errors import MissingPackageError, needs

    commands = {point.name: point for point in entry_points(group="crown.commands")}
    for name in _APART - set(commands):
        absent = MissingPackageError(f"crown {name} is in a separate package: pip install 'crown-ivm[{name}]'")
        if name == chosen:
            raise absent
        subparsers.add_parser(name, help=f"({absent})")
    for name, point in sorted(commands.items()):
        if chosen in commands and name != chosen:
            subparsers.add_parser(name)  # another command was chosen: not imported
            continue
        try:
            with needs(f"crown {name}"):
                module = point.load()
        except MissingPackageError as error:
            if name == chosen:
                raise
            subparsers.add_parser(name, help=f"({error})")
            continue
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run, reports_progress=getattr(module, "REPORTS_PROGRESS", False))


if __name__ == "__main__":
    sys.exit(main())
