"""Relations with windows, where the query has several cells: an operator of its own, in one cell, before them.

    changes → the window → rows that come, go and leave → the cells of the query

Why one cell: ``plans.search.window_cells``. It costs one shuffle of the changes and one log more. A query in one cell
has its windows in that cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plans.program import Program
from plans.search.exchanges import Exchange
from plans.search.window_cells import within
from spark_jobs.dispatch.chain import ExchangeStep, strides, words_of

WITHIN = ".window."
"""What stands between the operator's name and that of the relation whose window it is."""


def strides_within(
    maintained: Program, behind: Sequence[Exchange], operator: str, **common: Any
) -> Mapping[str, ExchangeStep]:
    """Returns, by relation in lower case, the operators that stand before a program for its relations with windows.

    ``behind``: the rounds of the query, which have no windows if these stand before them. ``common``: as for
    ``strides``.
    """
    if behind[0].maintained.windows:
        return {}
    found, windows = {}, within(maintained, common["on_missing"] == "raise")
    words = words_of(windows)
    for relation, kept in windows.items():
        name = operator + WITHIN + words[relation]
        own = {"fingerprint": kept.maintained.fingerprint, "query": kept.maintained.query}
        (found[relation],) = strides((kept,), operator=name, **{**common, **own})
    return found
