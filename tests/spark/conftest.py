"""One local Spark session for all tests of this folder that ask for it; failed tasks are tried up to four times."""

from __future__ import annotations

import gc

import pytest

from spark_jobs import local_session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests with a session are marked ``spark``.

    PySpark leaves sockets for the garbage collector to close, and warns of pandas 3, which nothing here goes through.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark():
    """``local[2,4]``: plain ``local[N]`` never retries a task."""
    session = local_session("crown tests", memory="1g", conf={"spark.master": "local[2,4]"})
    yield session
    session.stop()
    gc.collect()
