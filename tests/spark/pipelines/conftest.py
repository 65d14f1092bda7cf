"""The database of ``tests.spark.tables``, and a broker."""

from tests.spark.feeds.broker import kafka  # noqa: F401
from tests.spark.tables.database import database  # noqa: F401
