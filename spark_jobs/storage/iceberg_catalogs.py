"""Catalogs of pyiceberg: resolves names of tables, and reports errors of catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.storage.address import in_a_line

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def opened(name: str) -> tuple[Catalog, str]:
    """Returns the catalog of ``CATALOG.NAMESPACE.TABLE``, and the name of the table in it."""
    from pyiceberg.catalog import load_catalog

    catalog, _, table = name.partition(".")
    return load_catalog(catalog), table


@contextmanager
def catalog_errors(to_error: Callable[[str, str], Exception]) -> Iterator[None]:
    """Turns the errors of pyiceberg into the exception that ``to_error`` makes of the reason, and of the place where
    catalogs are described.
    """
    import pyiceberg.exceptions as raised

    ours = tuple(one for one in vars(raised).values() if isinstance(one, type) and issubclass(one, Exception))
    try:
        yield
    except (*ours, ValueError, OverflowError, OSError, pa.ArrowException) as error:
        reason = in_a_line(error)[:300].rstrip(". ")
        where = "its catalog is described in .pyiceberg.yaml, or in the environment (PYICEBERG_CATALOG__...)"
        raise to_error(reason, where) from None
