"""The storages that state can be on: folders of this host, and a bucket of an S3 server that the tests start."""

from __future__ import annotations

import uuid

import pytest

from spark_jobs.storage.opening import folder_at
from tests.spark.storage.server import BUCKET, s3_server


@pytest.fixture(scope="session")
def s3():
    """The options by which a bucket on loopback is reached."""
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with s3_server() as options:
        yield options


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path):
    """A folder on either storage, as a user writes it, with the options."""
    if request.param == "local":
        return str(tmp_path / "on disk"), {}
    return f"s3a://{BUCKET}/{uuid.uuid4().hex}/on s3", request.getfixturevalue("s3")


@pytest.fixture
def folder(place):
    """The same as a folder."""
    made = folder_at(place[0], "state", place[1])
    made.make()
    return made
