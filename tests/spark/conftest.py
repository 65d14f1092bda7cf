"""One local Spark session for all tests of this folder that ask for it; failed tasks are tried up to three times."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView

from spark_jobs import local_session
from spark_jobs import session as session_module


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
def spark(quick_jvms):
    """``local[2,3]``: plain ``local[N]`` never retries a task."""
    with pytest.MonkeyPatch.context() as patch:
        for names in (JVMView, JavaPackage):
            patch.setattr(names, "__getattr__", _remembered(names.__getattr__))
        patch.setattr(session_module, "_JVM", f"{session_module._JVM} -XX:CompileThresholdScaling=2")
        session = local_session("crown tests", memory="1g", conf={"spark.master": "local[2,3]"})
        yield session
    session.stop()
    gc.collect()


def _remembered(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Returns ``look_up``, which asks the JVM what a name means, such that a name is asked for once.

    The JVM looks for a class of that name in each of Spark's 250 archives, and in each imported package: a tenth of
    what it does in these tests.
    """

    def found(self: Any, name: str) -> Any:
        value = look_up(self, name)
        if isinstance(value, (JavaClass, JavaPackage)):
            vars(self)[name] = value
        return value

    return found


@pytest.fixture
def iceberg_catalog(tmp_path, monkeypatch):
    """The catalog ``here`` of pyiceberg's, in SQLite, with the namespace ``shop``."""
    catalogs = pytest.importorskip("pyiceberg.catalog", reason="pyiceberg is not there", exc_type=ImportError)
    pytest.importorskip("sqlalchemy", reason="a catalog in SQLite needs sqlalchemy")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", f"sqlite:///{tmp_path / 'catalog.db'}")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", f"file://{tmp_path}")
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", type(catalogs._ENV_CONFIG)())
    catalog = catalogs.load_catalog("here")
    catalog.create_namespace("shop")
    return catalog
