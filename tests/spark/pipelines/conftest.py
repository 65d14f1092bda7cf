"""A project."""

from tests.spark.pipelines.shop import shop  # noqa: F401
