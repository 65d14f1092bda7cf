"""Detects the format and compression of files by their names and their first bytes.

A name may have several suffixes: `g.csv.gz` is CSV, compressed with gzip. The first bytes decide if the name does not,
and are compared with the name if it does.
"""

from __future__ import annotations

from pathlib import PurePath

CSV, TSV, TEXT, JSON, PARQUET, ARROW = "csv", "tsv", "text", "json", "parquet", "arrow"
GZIP, ZSTD, BZ2, ZIP = "gzip", "zstd", "bz2", "zip"

_FORMATS = {
    ".csv": CSV,
    ".tsv": TSV,
    ".tab": TSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".feather": ARROW,
    ".ipc": ARROW,
}
_PACKINGS = {".gz": GZIP, ".gzip": GZIP, ".zst": ZSTD, ".zstd": ZSTD, ".bz2": BZ2, ".zip": ZIP}
_PACKED = ((b"\x1f\x8b", GZIP), (b"\x28\xb5\x2f\xfd", ZSTD), (b"BZh", BZ2), (b"PK\x03\x04", ZIP), (b"PK\x05\x06", ZIP))
_STREAM_OF_ARROW = b"\xff\xff\xff\xff"
_BINARY = ((b"PAR1", PARQUET), (b"ARROW1", ARROW), (_STREAM_OF_ARROW, ARROW))
_OTHERS = (
    (b"\xfd7zXZ\x00", "compressed with xz: compress it with gzip, zstd or bzip2"),
    (b"\x04\x22\x4d\x18", "compressed with lz4: compress it with gzip, zstd or bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"),
    (b"\xff\xfe", "text in UTF-16: convert it to UTF-8"),
    (b"\xfe\xff", "text in UTF-16: convert it to UTF-8"),
    (b"FEA1", "a Feather file of version 1: write it as Parquet or Arrow"),
    (b"Obj\x01", "an Avro file: write it as Parquet"),
    (b"SQLite format 3\x00", "an SQLite database: export the table as CSV"),
    (b"%%MatrixMarket", "a Matrix Market file: delete its first lines, up to the one with the sizes"),
)


def named(path: PurePath) -> tuple[str | None, str | None]:
    """Returns the format and the compression of the suffixes of a name; None if there is no such suffix."""
    *_, before, last = ("", "", *(suffix.lower() for suffix in path.suffixes))
    packing = _PACKINGS.get(last)
    return _FORMATS.get(last if packing is None else before), packing


def packing_of(data: bytes) -> str | None:
    """Returns the compression of a file that begins with these bytes, or None if it is not compressed."""
    found = next((packing for start, packing in _PACKED if data.startswith(start)), None)
    return found if found != BZ2 or data[3:4].isdigit() else None


def format_of(data: bytes) -> str | None:
    """Returns the format of an uncompressed file that begins with these bytes, or None for text other than JSON: CSV,
    or a list without a header."""
    binary = next((format for start, format in _BINARY if data.startswith(start)), None)
    return binary or (JSON if data.lstrip()[:1] in (b"{", b"[") else None)


def foreign(data: bytes) -> str | None:
    """Returns the kind of a file that begins with these bytes, and what to do, if the kind is not supported; else
    None."""
    other = next((said for start, said in _OTHERS if data.startswith(start)), None)
    return "a tar archive: unpack it" if other is None and data[257:262] == b"ustar" else other
