"""A view as an HTML card for notebooks: query, rows, memory, last batch, a sample, and its plan on click."""

from __future__ import annotations

from html import escape
from typing import Any

from crown.analysis.meter import LastBatch
from crown.analysis.report import size_text, time_text
from crown.reading import Readable
from crown.results import html_table

SAMPLE = 5


def of_view(view: Readable, made: Any, size: int, batches: int, last: LastBatch | None) -> str:
    """Returns the card of a view of the plan or program ``made``, with ``size`` bytes of state."""
    took = f", the last took {time_text(last.seconds)}" if last is not None else ""
    facts = [size_text(size), f"{batches:,} batch{'' if batches == 1 else 'es'}{took}"]
    return of_result(view, made.query, facts, f"<details><summary>plan</summary>{made._repr_html_()}</details>")


def of_result(result: Readable, query: str, facts: list[str], more: str = "") -> str:
    """Returns the card of a result: its query, its number of rows with other ``facts``, a sample, and ``more``."""
    rows, sample = result.count(), result.to_table(SAMPLE)
    said = " · ".join([f"{rows:,} row{'' if rows == 1 else 's'}", *facts])
    return (
        f"<div><pre style='margin:0 0 .4em;white-space:pre-wrap'>{escape(query.strip())}</pre>"
        f"<div style='margin-bottom:.4em'>{said}</div>"
        f"{html_table.table(sample, more=max(0, rows - sample.num_rows)) if rows else ''}{more}</div>"
    )
