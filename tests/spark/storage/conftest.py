"""The storages that state can be on: folders of this host, and buckets of servers that the tests start."""

from __future__ import annotations

import uuid

import pytest

from spark_jobs.storage.opening import folder_at
from tests.spark.storage.server import AZURITE, BUCKET, azure_server, gcs_server, s3_server


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


@pytest.fixture
def folder(place):
    """The same as a folder."""
    made = folder_at(place[0], "state", place[1])
    made.make()
    return made
