"""``Quarantine``: the rows of a source's files that cannot be used, with the reasons.

There is a file of JSON lines for each file that has such rows. It is replaced whenever that file is read again, and
deleted when the source no longer has that file. So a row is kept once, however often a run is repeated, and it is gone
when its file was corrected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from crown.durable.files import write_durably
from crown.errors import ProjectError

FAIL, QUARANTINE = ON_BAD_ROW = ("fail", "quarantine")
_SUFFIX = ".jsonl"
_LONGEST = 200


@dataclass(frozen=True)
class Refused:
    """A row that cannot be used. ``row``: its number among the rows that can be read, from 1. ``data``: the row as
    JSON, or the line if it cannot be read; None if this is the whole file."""

    reason: str
    row: int | None = None
    data: str | None = None


@dataclass(frozen=True)
class Quarantine:
    """The quarantine of one source, in a folder that is created when it is needed."""

    folder: Path

    def put(self, file: str, rows: Sequence[Refused]) -> None:
        """Replaces the rows of a file. Raises ProjectError if they cannot be written."""
        target = self.folder / _name(file)
        try:
            if rows:
                self.folder.mkdir(parents=True, exist_ok=True)
                lines = [json.dumps({"file": file, **asdict(row)}, ensure_ascii=False) for row in rows]
                write_durably(target, "".join(f"{line}\n" for line in lines).encode())
            else:
                target.unlink(missing_ok=True)
        except OSError as error:
            raise ProjectError(
                f"the quarantine {self.folder} cannot be written ({error.strerror or error}): fix that, and run again"
            ) from None

    def keep(self, files: Collection[str]) -> None:
        """Deletes the rows of all other files. O(files in the quarantine + files)."""
        if self.folder.is_dir():
            kept = {_name(file) for file in files}
            for path in self.folder.glob(f"*{_SUFFIX}"):
                if path.name not in kept:
                    path.unlink(missing_ok=True)


def counts(folder: Path) -> dict[str, int]:
    """Returns the number of rows in the quarantine of each source. ``folder``: that of all of them. O(bytes)."""
    found = {}
    for source in sorted(folder.iterdir()) if folder.is_dir() else ():
        rows = sum(file.read_bytes().count(b"\n") for file in source.glob(f"*{_SUFFIX}"))
        if rows:
            found[source.name] = rows
    return found


def _name(file: str) -> str:
    """Returns the name of the quarantine's file for a file of the source."""
    name = quote(file, safe="")
    short = len(name) <= _LONGEST
    return (name if short else hashlib.sha256(file.encode()).hexdigest()) + _SUFFIX
