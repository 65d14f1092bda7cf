"""The storages of ``tests.spark.storage``."""

from tests.spark.storage.conftest import azure, gcs, place, s3  # noqa: F401
