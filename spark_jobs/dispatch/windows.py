"""Relations with windows, where the query has several cells: an operator of its own, in one cell, in front of them.

    changes → the window → inserted, deleted and expired rows → the cells of the query

``plans.search.cells.windows`` explains why it has one cell. The cost is one more shuffle of the changes and one more
log. A query in one cell has its windows in that cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plans.program import Program
from plans.search.cells.exchanges import Exchange
from plans.search.cells.windows import within
from spark_jobs.dispatch.chain import ExchangeStep, strides, words_of

WITHIN = ".window."
"""Stands in an operator's name between the name of the query's operator and the relation of the window."""


def strides_within(
    maintained: Program, rounds: Sequence[Exchange], operator: str, **common: Any
) -> Mapping[str, ExchangeStep]:
    """Returns, by relation in lower case, the operators in front of a program for its relations with windows.

    ``rounds``: the rounds of the query. They have no windows themselves if these operators exist. ``common``: as for
    ``strides``.
    """
    if rounds[0].maintained.windows:
        return {}
    found, windows = {}, within(maintained, common["on_missing"] == "raise")
    words = words_of(windows)
    for relation, kept in windows.items():
        name = operator + WITHIN + words[relation]
        own = {"fingerprint": kept.maintained.fingerprint, "query": kept.maintained.query}
        (found[relation],) = strides((kept,), operator=name, **{**common, **own})
    return found
