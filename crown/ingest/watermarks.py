"""Attaches explicit watermarks to batches, in addition to those that rows imply.

An Arrow table of changes, usually one without rows, may have a watermark in its metadata. So a watermark is processed
like all changes: batches prepare it, and the log of a durable view stores it and replays it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

_KEY = b"crown.watermark"


def with_watermark(table: pa.Table, watermark: int) -> pa.Table:
    """Returns a table of changes that reaches a watermark, given as a code."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: str(watermark).encode()})


def given_watermark(metadata: Mapping[bytes, bytes]) -> int | None:
    """Returns the watermark in the metadata of a table of changes, or None."""
    return int(metadata[_KEY]) if _KEY in metadata else None
