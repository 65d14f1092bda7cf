"""``crown completion``: prints a script with which a shell completes subcommands, options and choices."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from crown.commands.main import parsers

HELP = "print a script that makes bash, zsh or fish complete crown's commands and options"

_EPILOG = """\
bash:  crown completion bash > ~/.local/share/bash-completion/completions/crown
zsh:   crown completion zsh > a folder of $fpath, as _crown
fish:  crown completion fish > ~/.config/fish/completions/crown.fish
"""


@dataclass(frozen=True)
class Option:
    """An option of a command: its names, its values (None: it has none; empty: a file), and its purpose."""

    names: tuple[str, ...]
    takes: tuple[str, ...] | None
    help: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=tuple(_SHELLS), help="the shell that runs the script")


def run(args: argparse.Namespace) -> int:
    """Prints the script; exit code 0."""
    print(script(args.shell, parsers()), end="")
    return 0


def script(shell: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Returns the script for a shell, with the options of every command and of its actions."""
    return str(_SHELLS[shell]({path: list(_options(parser)) for path, parser in _paths(commands)}))


def _paths(commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields the commands, and ``command action`` for commands with actions."""
    for name, parser in commands.items():
        yield name, parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((f"{name} {part}", inner) for part, inner in action.choices.items())


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield Option((), tuple(action.choices), "")
        elif action.help != argparse.SUPPRESS:
            takes = None if action.nargs == 0 else tuple(map(str, action.choices or ()))
            if action.option_strings or takes:
                yield Option(tuple(action.option_strings), takes, _plain(action.help or "", parser, action))


def _plain(text: str, parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Returns the help of an option, shortened to one line."""
    known = {**vars(action), "prog": parser.prog}
    with suppress(KeyError, ValueError, TypeError):
        text = text % known
    return text.split(";")[0].split(": ")[0].strip()


def _words(options: list[Option]) -> list[str]:
    return [word for option in options for word in (option.names or option.takes or ())]


def _bash(commands: Mapping[str, list[Option]]) -> str:
    names = [path for path in commands if " " not in path]
    cases = "\n".join(f"    {path!r}) words={' '.join(_words(options))!r} ;;" for path, options in commands.items())
    choices = [
        f'    {f"{path} {name}"!r}) COMPREPLY=($(compgen -W {" ".join(option.takes)!r} -- "$here")); return ;;'
        for path, options in commands.items()
        for option in options
        for name in option.names
        if option.takes
    ]
    return (
        "# bash completion of crown\n"
        "_crown() {\n"
        "  local here=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words\n"
        "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
        f"    COMPREPLY=($(compgen -W '{' '.join(names)} --help --version' -- \"$here\")); return\n"
        "  fi\n"
        f"  case $command in {'|'.join(_with_actions(commands)) or '-'})\n"
        "    [ \"$COMP_CWORD\" -gt 2 ] && command=\"$command ${COMP_WORDS[2]}\" ;;\n"
        "  esac\n"
        "  case \"$command $last\" in\n" + "\n".join(choices) + "\n  esac\n"
        "  case $command in\n" + cases + "\n    *) words= ;;\n  esac\n"
        "  COMPREPLY=($(compgen -W \"$words\" -- \"$here\"))\n"
        "  case $here in -*) ;; *) COMPREPLY+=($(compgen -f -- \"$here\")) ;; esac\n"
        "}\n"
        "complete -o filenames -F _crown crown\n"
    )  # fmt: skip


def _with_actions(commands: Mapping[str, list[Option]]) -> list[str]:
    return list(dict.fromkeys(path.split()[0] for path in commands if " " in path))


def _zsh(commands: Mapping[str, list[Option]]) -> str:
    """Returns the script of bash in a form that zsh runs."""
    return f"#compdef crown\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Mapping[str, list[Option]]) -> str:
    lines = ["# fish completion of crown"]
    names = [path for path in commands if " " not in path]
    lines.append(f"complete -c crown -n __fish_use_subcommand -a {_quoted(' '.join(names))}")
    for path, options in commands.items():
        known = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split())
        for option in options:
            line = f"complete -c crown -n {_quoted(known)}"
            if not option.names:
                lines.append(f"{line} -a {_quoted(' '.join(option.takes or ()))}")
                continue
            for name in option.names:
                line += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
            if option.takes is not None:
                line += f" -x -a {_quoted(' '.join(option.takes))}" if option.takes else " -r"
            lines.append(f"{line} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
