"""Watermarks that a batch states itself, beside those that its rows imply.

An Arrow table of changes, mostly one without rows, may have a watermark in its metadata. So it goes the way of all
changes: through the preparation of a batch, into the log of a durable view, and out of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

_KEY = b"crown.watermark"


def with_watermark(table: pa.Table, watermark: int) -> pa.Table:
    """Returns a table of changes with which a watermark is reached, a code."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: str(watermark).encode()})


def given_watermark(metadata: Mapping[bytes, bytes]) -> int | None:
    """Returns the watermark that comes with a table of changes, by its metadata, if one does."""
    return int(metadata[_KEY]) if _KEY in metadata else None
