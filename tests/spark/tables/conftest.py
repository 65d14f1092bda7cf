"""The storages of ``tests.spark.storage``, a database and a broker."""

from tests.spark.feeds.broker import kafka  # noqa: F401
from tests.spark.storage.conftest import azure, gcs, place, s3  # noqa: F401
from tests.spark.tables.database import database  # noqa: F401
