"""``Session``: the Spark session of a pipeline, which exists from the beginning or is started when it is first needed.

A run needs no session if its definitions and settings are those of the previous run, and Python reads its sources.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from typing_extensions import override

_SUBMITTED = "PYSPARK_SUBMIT_ARGS"
_DEFAULTS = "spark-defaults.conf"
_FILE_SYSTEM = "fs.defaultFS"
_OF_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
"""Variables that name a folder with the settings of Hadoop."""


class Session:
    """A session of Spark. ``start`` starts it; ``settings`` returns the settings on which the meaning of a query
    depends."""

    def __init__(self, start: Callable[[], SparkSession], settings: Callable[[], Any]) -> None:
        self._start = start
        self._settings = settings
        self._starting = Lock()
        self._spark: SparkSession | None = None

    @classmethod
    def of(cls, spark: SparkSession | Session) -> Session:
        """Returns the session itself, or one for a session that exists already."""
        if isinstance(spark, Session):
            return spark
        made = cls(lambda: spark, lambda: _settings_of(spark))
        assert made.spark is spark, "it is started"
        return made

    @classmethod
    def later(cls, start: Callable[[], SparkSession], settings: Mapping[str, str], database: str | None) -> Session:
        """Returns a session that will have these settings, those of the environment and those of Spark's own file."""
        return cls(start, lambda: [pyspark.__version__, sorted(settings.items()), database, *_of_environment()])

    @property
    def spark(self) -> SparkSession:
        """Returns the session, and starts it, once; several threads may ask for it."""
        with self._starting:
            if self._spark is None:
                self._spark = self._start()
            return self._spark

    @property
    def started(self) -> bool:
        """Returns True if the session exists."""
        return self._spark is not None

    def settings(self) -> Any:
        """Returns a JSON value. While it is the same, the meaning of a query is the same."""
        return self._settings()

    def names(self, setting: str) -> bool:
        """Returns True if a setting of Spark's SQL may differ from its default."""
        return setting in json.dumps(self.settings())

    @property
    def is_local(self) -> bool:
        """Returns True if a path without a scheme is one of this host."""
        return not self.names(_FILE_SYSTEM)


_active = SparkSession.active


class _Active(SparkSession):
    """The session that is active at the time of a call. Each analysis and each run has its own."""

    def __init__(self) -> None:
        """Does not create a session."""

    @override
    def __getattribute__(self, name: str) -> Any:
        return getattr(_active(), name)


@contextmanager
def following() -> Iterator[SparkSession]:
    """Yields the session that files of a project get as ``spark``, and as the active session meanwhile. Objects that
    they store in a module find the views and sources of the project whenever one of their functions is called."""
    found, builder = _Active(), SparkSession.Builder
    create = builder.getOrCreate

    def created(self: SparkSession.Builder) -> SparkSession:
        create(self)  # with its settings
        return found

    SparkSession.active, builder.getOrCreate = (lambda: found), created  # type: ignore[method-assign]
    try:
        yield found
    finally:
        SparkSession.active, builder.getOrCreate = _active, create  # type: ignore[method-assign]


def _settings_of(spark: SparkSession) -> list[Any]:
    settings = sorted((name, value) for name, value in spark.conf.getAll.items() if name.startswith("spark.sql."))
    files = str(spark._jsc.hadoopConfiguration().get(_FILE_SYSTEM))
    elsewhere = [] if files.startswith("file:") else [(_FILE_SYSTEM, files)]
    return [spark.version, spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), settings, *elsewhere]


def _of_environment() -> list[str | None]:
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf") / _DEFAULTS
    sites = [Path(os.environ[name]) / "core-site.xml" for name in _OF_HADOOP if os.environ.get(name)]
    texts = [path.read_text() if path.is_file() else None for path in (file, *sites)]
    return [os.environ.get(_SUBMITTED), *texts]
