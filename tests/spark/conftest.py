"""One local Spark session for all tests of this folder that ask for it; failed tasks are tried up to three times.

Of object stores, databases and brokers there is one server each, too: each folder would have servers of its own.
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark import SparkContext

from spark_jobs import local_session
from spark_jobs import session as session_module
from tests.spark import shared
from tests.spark.feeds.broker import kafka  # noqa: F401
from tests.spark.local_files import keep_permissions
from tests.spark.storage.server import AZURITE, BUCKET, azure_server, gcs_server, s3_server
from tests.spark.tables.database import database  # noqa: F401


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
def contents():
    """What the session had when it started, by session: none as long as no test asks for it."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(contents):
    """Fails in a file of tests that leaves something in the session, for other files to find."""
    yield
    for session, before in contents.items():
        for _ in range(50):
            contents[session] = shared.content(session)
            if not (left := shared.difference(before, contents[session])):
                break
            time.sleep(0.1)  # a stream that ends may still be listed
        assert not left, "this file changes the session that all tests share:\n" + "\n".join(left)


@pytest.fixture(autouse=True)
def as_before(request, contents):
    """Settings, temporary views and functions of the session are after a test what they were before it.

    A session that a test starts, where no other has asked for the one that all share, ends with the test.
    """
    if "spark" not in request.fixturenames:
        yield
        if not contents and (started := SparkContext._active_spark_context) is not None:
            started.stop()
        return
    with shared.restored(request.getfixturevalue("spark")):
        yield


@pytest.fixture(scope="session")
def spark(quick_jvms, contents):
    """``local[2,3]``: plain ``local[N]`` never retries a task."""
    with pytest.MonkeyPatch.context() as patch:
        for names in (JVMView, JavaPackage):
            patch.setattr(names, "__getattr__", _remembered(names.__getattr__))
        patch.setattr(session_module, "_JVM", f"{session_module._JVM} -XX:CompileThresholdScaling=2")
        session = local_session("crown tests", memory="1g", conf={"spark.master": "local[2,3]"})
        keep_permissions(session)
        keep_no_lists(session)
        contents[session] = shared.content(session)
        yield session
    session.stop()
    gc.collect()


def keep_no_lists(session):
    """Spark keeps lists of jobs, tasks and queries for its pages, which nothing here shows: a twentieth of the JVM."""
    context = session.sparkContext._jsc.sc()
    for store in (context.statusStore(), session._jsparkSession.sharedState().statusStore()):
        context.listenerBus().removeListener(store.listener().get())


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


@pytest.fixture(scope="session")
def s3():
    """The options by which a bucket on loopback is reached."""
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with s3_server() as options:
        yield options


@pytest.fixture(scope="session")
def azure():
    """The options by which a container of Azure's emulator is reached."""
    pytest.importorskip("obstore")
    if AZURITE is None:
        pytest.skip("Azure's emulator is not there: npm install azurite, and put azurite-blob on the PATH")
    with azure_server() as options:
        yield options


@pytest.fixture(scope="session")
def gcs():
    """The options by which a bucket of a server of Google Cloud Storage's API is reached."""
    pytest.importorskip("obstore")
    with gcs_server() as options:
        yield options


@pytest.fixture(params=["local", "s3", "azure", "gcs"])
def place(request, tmp_path):
    """A folder on each storage, as a user writes it, with the options."""
    if request.param == "local":
        return str(tmp_path / "on disk"), {}
    scheme = {"s3": "s3a", "azure": "az", "gcs": "gs"}[request.param]
    return f"{scheme}://{BUCKET}/{uuid.uuid4().hex}/on a store", request.getfixturevalue(request.param)
