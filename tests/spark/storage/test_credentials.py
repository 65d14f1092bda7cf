"""What is said when a store is not reached: for want of credentials, with wrong ones, or through deltalake, which names
its causes on lines of their own. Never the credentials."""

from __future__ import annotations

import json

import pytest

from spark_jobs.errors import FolderError, SourceError
from spark_jobs.feeds.delta_source import opened as source_opened
from spark_jobs.storage.address import in_a_line
from spark_jobs.storage.objects import Bucket
from spark_jobs.storage.opening import ensure_writable, folder_at
from spark_jobs.tables.deltas.delta import opened
from tests.spark.storage.server import SECRET, environment, options, url_of

ONCE = {"max_retries": "0", "retry_timeout": "5"}
KEY = json.dumps({"client_email": "a", "private_key": SECRET, "private_key_id": "b"})


@pytest.fixture
def emulator(gcs):
    """How the server is reached, without credentials."""
    return {"google_base_url": url_of(gcs), "google_allow_http": "true", **ONCE}


def sentence(of, kind=OSError):
    """What is raised, as a user sees it."""
    with pytest.raises(kind) as error:
        of()
    said = str(error.value)
    assert SECRET not in said
    assert "\n" not in said
    assert "\x1b" not in said
    assert "169.254" not in said
    return said


def test_a_token_serves_the_state_and_a_wrong_one_is_no_other_error(emulator):
    folder = folder_at("gs://bucket/tokens", "state", {**emulator, "google_bearer_token": SECRET})
    ensure_writable(folder, "state")
    assert folder.create("x", b"1")
    assert not folder.create("x", b"2")
    wrong = folder_at("gs://bucket/tokens", "state", {**emulator, "google_bearer_token": SECRET + "x"})
    said = sentence(lambda: ensure_writable(wrong, "state"), FolderError)
    assert "not permitted: AuthenticationRequired" in said
    assert "AuthenticationRequired" in sentence(wrong.files)


def test_a_store_that_is_open_to_all_is_read_without_credentials(emulator):
    assert folder_at("gs://bucket/nothing", "state", {**emulator, "google_skip_signature": "true"}).files() == {}


def test_whoever_has_no_credentials_is_told_so(emulator):
    said = sentence(folder_at("gs://bucket/x", "state", emulator).files)
    assert said.endswith("no credentials are given, in the environment or as storage_options")
    nobody = {"aws_region": "us-east-1", **ONCE}
    assert "no credentials are given" in sentence(folder_at("s3://bucket/x", "state", nobody).files)


def test_a_delta_table_by_a_token_is_refused_because_deltalake_takes_none(emulator, gcs, monkeypatch):
    folder = folder_at("gs://bucket/x", "path", {**emulator, "google_bearer_token": SECRET})
    assert "give a service account" in sentence(lambda: opened(folder), FolderError)
    assert opened(folder_at("gs://bucket/x", "path", gcs)) is None
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)
    assert "give a service account" in sentence(lambda: opened(folder_at("gs://bucket/x", "path")), FolderError)
    assert opened(folder_at("gs://bucket/x", "path", gcs)) is None


def test_why_deltalake_did_not_reach_a_store_is_said(gcs, emulator, monkeypatch):
    pytest.importorskip("deltalake")
    gone = folder_at("s3://bucket/x", "path", {**options("http://127.0.0.1:9"), **ONCE})
    assert "error sending request" in sentence(lambda: opened(gone), SourceError)
    assert "NoSuchBucket" in sentence(lambda: opened(folder_at("gs://nobucket/x", "path", gcs)), SourceError)
    assert "no credentials" in sentence(lambda: opened(folder_at("gs://bucket/x", "path", emulator)), SourceError)
    for name, value in environment(gcs).items():
        monkeypatch.setenv(name, value)
    assert "NoSuchBucket" in sentence(lambda: source_opened("gs://nobucket/x"), SourceError)


@pytest.mark.parametrize("name", ["google_service_account", "google_application_credentials"])
def test_a_key_where_its_path_should_stand_is_not_shown(emulator, name, monkeypatch):
    folder = folder_at("gs://bucket/x", "state", {**emulator, name: KEY})
    sentence(folder.files, FolderError)
    sentence(lambda: opened(folder), SourceError)
    monkeypatch.setenv(name.upper(), KEY)
    other = folder_at(f"gs://another-{name}/x", "state", emulator)  # a process keeps the client of a bucket
    sentence(other.files, FolderError)
    sentence(lambda: source_opened("gs://bucket/x"), SourceError)


def test_the_reason_is_one_line_whatever_a_library_says():
    told = OSError(
        "Generic S3 error\n \x1b[31m↳\x1b[0m Error performing GET http://h/b?x=1 in 1ms\n  ↳ 403 Forbidden\n"
    )
    assert in_a_line(told) == "Generic S3 error: Error performing GET http://h/b?... in 1ms: 403 Forbidden"
    assert Bucket("s3://b").reason(told) == "Error performing GET http://h/b?... in 1ms: 403 Forbidden"
    assert in_a_line(ValueError("timed out\n\nDebug source:\nmore")) == "timed out"
    assert in_a_line(ValueError()) == "ValueError()"
