"""The database of ``tests.spark.tables``, a broker, and a project."""

from tests.spark.feeds.broker import kafka  # noqa: F401
from tests.spark.pipelines.shop import shop  # noqa: F401
from tests.spark.tables.database import database  # noqa: F401
