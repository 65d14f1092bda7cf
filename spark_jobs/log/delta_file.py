"""The file of one batch of one cell: its identity, the input rows, and a checksum.

The bytes have the format of ``crown.durable.packing``. The header contains format, plan fingerprint, stream, cut, cell,
batch, the batch before with the digest of its file, and each relation with its rows and bytes. So the digests are a
hash chain: a file fits one history only. Format 1 is for a single cell. With several cells the format is 2: a row has
the mask of the atoms that read it there. Nothing is ever unpickled, so a foreign file is an error, not code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crown.durable import packing
from crown.durable.packing import DIGEST
from crown.results.summed import summed
from spark_jobs.errors import ANEW, DamagedStateError, PlanChangedError

ONE_CELL, MASKED = 1, 2
_MAGIC = b"CROWNDLT"
_WEIGHT = "_weight"
_MALFORMED = (ValueError, KeyError, TypeError, OverflowError)
_RESTORE = f"The state cannot be rebuilt without the file. Restore it from a copy, or {ANEW}"

Changes = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Link:
    """One batch of a cell: its number, the batch before it, and the rows that the cell received, by relation.

    ``parent``: the digest of the batch before, "" if it is not known; ``digest`` and ``size``: of the link's own file,
    once it exists.
    """

    batch: int
    prev: int
    changes: dict[str, pa.Table]
    parent: str = ""
    digest: str = ""
    size: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Owner:
    """The owner of a file: the plan's fingerprint, the cell, the stream as ``<stream id>/<operator>``, the format, and
    the cut of the state into cells.
    """

    fingerprint: str
    cell: str
    stream: str
    format: int = ONE_CELL
    cut: str = ""


def format_of(cells: int) -> int:
    """Returns the format of a state with ``cells`` cells."""
    return ONE_CELL if cells == 1 else MASKED


def pack(link: Link, owner: Owner) -> bytes:
    """Returns the file of a link. O(rows)."""
    header = {
        "format": owner.format,
        "fingerprint": owner.fingerprint,
        "stream": owner.stream,
        "cut": owner.cut,
        "cell": owner.cell,
        "batch": link.batch,
        "prev": link.prev,
        "parent": link.parent,
    }
    return packing.pack(_MAGIC, header, link.changes)


def digest_of(data: bytes) -> str:
    """Returns the digest at the end of a file, which the next batch stores as its parent."""
    return data[-DIGEST:].hex()


def unpack(data: bytes, path: object, owner: Owner, batch: int) -> Link:
    """Returns the link in the bytes of a file, which must be complete and belong to that owner and batch.

    ``path`` names the file in messages. Raises :class:`DamagedStateError`, or :class:`PlanChangedError` for another
    plan. A header without a stream or a cut, of an older version, is accepted by plan, cell and batch alone; a header
    without the digest of the batch before, by the number of that batch.
    """
    try:
        header, tables = packing.unpack(_MAGIC, data, lambda found: _link(found, path, owner, batch))
    except packing.NotPackedError as error:
        if data[: len(_MAGIC)] != _MAGIC:
            raise DamagedStateError(f"{path} is not a delta of this operator: restore it from a copy") from None
        if error.torn:
            raise DamagedStateError(f"{path} is damaged: its checksum does not match. {_RESTORE}") from None
        raise DamagedStateError(f"{path} is complete, but its contents are not those of a delta. {_RESTORE}") from None
    return replace(_link(header, path, owner, batch), changes=tables, digest=digest_of(data), size=len(data))


def unpack_head(read: Callable[[int, int], bytes], path: object, owner: Owner, batch: int) -> Link:
    """Returns the link of a file without its rows and digest, from its header alone. O(1); errors as for ``unpack``.

    ``read(start, stop)`` returns bytes of the file; its errors pass.
    """
    try:
        return _link(packing.unpack_header(_MAGIC, read), path, owner, batch)
    except _MALFORMED:
        raise DamagedStateError(f"{path} is not a delta of this operator, or damaged. {_RESTORE}") from None


def _link(header: Mapping[str, Any], path: object, owner: Owner, batch: int) -> Link:
    """Returns the link of a header, without rows. Raises unless it belongs to this plan, stream, cell and batch."""
    if header["format"] != owner.format:
        raise DamagedStateError(
            f"{path} has format {header['format']}, this version reads format {owner.format}: use the version that "
            f"wrote it, or {ANEW}"
        )
    if header["fingerprint"] != owner.fingerprint:
        raise PlanChangedError(
            f"{path} was written by plan {header['fingerprint']}, but this is plan {owner.fingerprint}, and a "
            f"changed query needs its own state: go back to the query of this one, or {ANEW}"
        )
    cut = header.get("cut", owner.cut)
    found = (header.get("stream", owner.stream), header["cell"], header["batch"])
    if found != (owner.stream, owner.cell, batch):
        raise DamagedStateError(
            f"{path} is the delta of batch {found[2]} of cell {found[1]} of stream {found[0]}, but it has the name of "
            f"that of batch {batch} of cell {owner.cell} of stream {owner.stream}: it was copied or renamed. "
            f"{_RESTORE}"
        )
    if cut != owner.cut:
        raise DamagedStateError(
            f"{path} belongs to a state that is partitioned by {cut}, but this state is partitioned by {owner.cut}: "
            f"meta.json was replaced, or the file is of another checkpoint. {_RESTORE}"
        )
    prev = int(header["prev"])
    if prev >= batch:
        raise ValueError
    return Link(batch, prev, {}, str(header.get("parent", "")))


def same_rows(a: Changes, b: Changes) -> bool:
    """Returns True iff both have the same rows with the same summed weights, in any order. O(rows)."""
    return all(_difference(a.get(name), b.get(name)) == 0 for name in {*a, *b})


def _difference(a: pa.Table | None, b: pa.Table | None) -> int:
    """Returns the number of distinct rows whose weights in ``a`` and ``b`` differ."""
    parts = []
    for table, sign in ((a, 1), (b, -1)):
        if table is not None and table.num_rows:
            weight = pc.multiply(table[_WEIGHT], sign)
            parts.append(table.set_column(table.column_names.index(_WEIGHT), _WEIGHT, weight))
    if not parts:
        return 0
    return len(summed(pa.concat_tables(parts), _WEIGHT))
