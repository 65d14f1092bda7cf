"""``meta.json`` of a folder: the query and options of its view, and the view's id.

The file is written once, after all other files of a new view, and never changed. Every other file contains the id, so a
file of another view is detected.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from crown.durable.files import write_durably
from crown.errors import DamagedStateError, QueryChangedError
from plans.errors import PlanError
from plans.program import Program

NAME, FORMAT = "meta.json", 1


@dataclass(frozen=True)
class Identity:
    """The contents of ``meta.json``: the view's id, everything that determines the layout of its state, and the
    relations (in lower case) of the schema that the query does not read.
    """

    view: str
    fingerprint: str
    query: str
    on_missing: str
    threads: int
    program: dict[str, Any]
    unread: list[str]

    @classmethod
    def of(cls, program: Program, on_missing: str, threads: int, unread: Iterable[str] = ()) -> Identity:
        """Returns the identity of a new view."""
        query, fingerprint = program.query, program.fingerprint
        return cls(secrets.token_hex(16), fingerprint, query, on_missing, threads, program.to_json(), sorted(unread))

    def write(self, folder: Path) -> None:
        """Writes ``meta.json``; it is on disk when this returns."""
        meta = {"format": FORMAT, **asdict(self)}
        write_durably(folder / NAME, json.dumps({"crc32": _checksum(meta), **meta}, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Identity | None:
        """Returns the identity in ``meta.json``; None if there is no file.

        Raises DamagedStateError if the file is not as it was written.
        """
        path = folder / NAME
        try:
            meta = json.loads(path.read_bytes())
            crc = meta.pop("crc32")
            whole = crc == _checksum(meta)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedStateError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
            whole = False
        if not whole:
            raise DamagedStateError(f"{path} is damaged, or was not written by crown.open", ": restore it from a copy")
        if meta.pop("format", None) != FORMAT:
            raise DamagedStateError(f"{path} is of another version of crown; open it with the version that wrote it")
        return cls(**{"unread": [], **{each.name: meta[each.name] for each in fields(cls) if each.name in meta}})

    def stored_program(self, folder: Path) -> Program:
        """Returns the program that the view maintains. Raises DamagedStateError if this version cannot read it."""
        try:
            return Program.from_json(self.program)
        except PlanError as error:
            raise DamagedStateError(
                f"{folder / NAME}: {error.message}; open it with the version that wrote it"
            ) from None

    def demand(self, program: Program, folder: Path) -> None:
        """Raises QueryChangedError, with both queries, unless the folder contains the state of this program."""
        if program.fingerprint == self.fingerprint:
            return
        same = program.query.split() == self.query.split()
        why = f"and this is {_quoted(program.query)}"
        if same:
            why = "with another schema, rates or tree, or with a function that has changed since"
        raise QueryChangedError(
            f"{folder} holds the state of {_quoted(self.query)}, {why}; give the changed query a folder of its own"
        )

    def demand_options(self, on_missing: str | None, threads: int | None, folder: Path) -> None:
        """Raises QueryChangedError for given options that differ from those with which the folder was created."""
        for name, given, kept in (("on_missing", on_missing, self.on_missing), ("threads", threads, self.threads)):
            if given is not None and given != kept:
                raise QueryChangedError(
                    f"{folder} was created with {name}={kept!r}, which decides what is stored, and not with {given!r}; "
                    f"leave {name} out, or open a new folder"
                )


def _checksum(meta: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(meta, sort_keys=True).encode())


def _quoted(query: str) -> str:
    return "“" + " ".join(query.split()) + "”"
